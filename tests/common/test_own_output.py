"""Which files dsrun may replace: those that begin as an output of any of its versions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import own_output
from dsrun.launcher.common.formats import versioned
from dsrun.launcher.features.full_check import runner_svg as svg
from dsrun.launcher.features.hooks.runner_exposition import Metric, text
from dsrun.launcher.features.picture.runner_page import page
from dsrun.launcher.features.picture.runner_replay import replay
from dsrun.launcher.head.report import document

from ..support.checkout import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

CRASH = document.crash_fields("j", ValueError("x"))

OUTPUTS = {
    "a report": document.as_text(versioned("report", CRASH)),
    "a report without a version": document.as_text(dict(CRASH)),
    "a report in one line": json.dumps({"job_id": "j", "exit_code": 0, "seconds": 1.0}),
    "metrics": text([Metric("up", "Whether it runs.", (({}, 1.0),))], {"job_id": "j"}),
    "a picture": page({"job_id": "j"}, "", replay([], 1.0, {}, [])),
    "matrices": svg.draw([], []),
}

FOREIGN = {
    "a script": "import torch\n",
    "blanks": " ",
    "JSON": '{"train_batch_size": 8}',
    "JSON with another format": '{"format": 1, "weights": []}',
    "JSON of another job": '{"job_id": "j", "lr": 0.1}',
    "other metrics": "# HELP node_cpu_seconds_total x\n",
    "a page": "<!doctype html>\n<title>my notes</title>\n",
    "a drawing": '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><path/></svg>',
    "a report behind something else": "\n" + document.as_text(versioned("report", CRASH)),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_dsrun_has_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text(OUTPUTS[name])
    (tmp_path / "link").symlink_to("file")
    assert own_output.is_own(str(tmp_path / "file"))
    assert own_output.is_own(str(tmp_path / "link"))


@pytest.mark.parametrize("name", FOREIGN)
def test_what_somebody_else_has_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text(FOREIGN[name])
    assert not own_output.is_own(str(tmp_path / "file"))


def test_a_file_that_is_not_there_is_not_dsruns(tmp_path: Path) -> None:
    assert not own_output.is_own(str(tmp_path / "none"))


def test_the_first_fields_of_all_forms_are_known() -> None:
    """So what `--json` prints into a file counts, too."""
    schemas = [
        json.loads(path.read_text()) for path in (CHECKOUT / "docs" / "schemas").glob("*.json")
    ]
    forms = [one for whole in schemas for one in (whole, *whole.get("$defs", {}).values())]
    fields = [list(one.get("properties", ())) for one in forms]
    first = {names[1] for names in fields if names[:1] == ["format"]}
    assert first
    assert first <= {*own_output.FIRST}
