"""The file with configurations of an editor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import launch_json
from dsrun.launcher.common.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

MINE = {"name": "mine", "type": "node"}


def test_our_configurations_take_the_place_of_earlier_ones_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "launch.json"
    assert launch_json.read("--f", str(path)) == {}
    old = launch_json.attach("rank 0 on n1", 4000, "/here", "/there")
    path.write_text(json.dumps({"configurations": [old, MINE, 3], "inputs": []}))
    new = launch_json.attach("rank 1 on n1", 4001, "/here", "/there")
    whole = launch_json.merged(launch_json.read("--f", str(path)), [new])
    assert whole == {"version": "0.2.0", "configurations": [MINE, 3, new], "inputs": []}
    assert new["pathMappings"] == [{"localRoot": "/here", "remoteRoot": "/there"}]


@pytest.mark.parametrize(
    "text",
    ["// mine\n{}", "[]", '{"configurations": 1}', '{"train_batch_size": 8}', "[" * 100_000],
)
def test_what_would_be_lost_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "launch.json"
    path.write_text(text)
    with pytest.raises(
        UsageError, match=r"^--f /.*launch.json: is not a launch.json without comments"
    ):
        launch_json.read("--f", str(path))
    assert path.read_text() == text


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--f /.*/none/x: no folder "):
        launch_json.read("--f", str(tmp_path / "none" / "x"))
