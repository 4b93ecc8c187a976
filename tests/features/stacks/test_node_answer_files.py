"""Stacks in the log folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.stacks import node_answer as files
from dsrun.launcher.features.stacks.messages import ProcessState, StacksAnswer, ThreadStack
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec

if TYPE_CHECKING:
    from pathlib import Path

STACKS = StacksAnswer(
    (
        ProcessState(3, 70, 1, "python train.py", "D", "do_wait", "py-spy", ""),
        ProcessState(3, 71, 70, "sh", "S", "", "", "it is not running Python"),
        ProcessState(4, 80, 1, "python train.py", "S", "", "py-spy", ""),
    ),
    (ThreadStack(70, "", True, True, ("step (train.py:4)", "<module> (train.py:9)")),),
    (),
)


def worker(rank: int, errors: str) -> Process:
    env = {b"TORCHELASTIC_ERROR_FILE": os.fsencode(errors)}
    return Process(WorkerSpec(rank, [b"python"], env, b"/"), 70, -1, -1, -1)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ("/logs/j/rank-0003.json", "/logs/j/rank-0003.stacks"),
        ("/logs/none_j/attempt_0/2/error.json", "/logs/none_j/attempt_0/2/stacks.log"),
        ("/proc/77/fd/9", ""),
        ("", ""),
    ],
)
def test_the_file_is_beside_the_logs(errors: str, expected: str) -> None:
    assert files.path_of(errors) == expected


def test_each_rank_has_its_file_to_which_is_added(tmp_path: Path) -> None:
    workers = [worker(rank, f"{tmp_path}/rank-{rank:04d}.json") for rank in (3, 4)]
    for _ in range(2):
        assert files.save(STACKS, workers) == str(tmp_path)
    lines = (tmp_path / "rank-0003.stacks").read_text().splitlines()
    assert lines[1:7] == [
        "pid 70 (state D, waits in do_wait): python train.py",
        "  thread ? (active)",
        "    step (train.py:4)",
        "    <module> (train.py:9)",
        "pid 71 (state S): sh",
        "  it is not running Python",
    ]
    assert lines[1:7] == lines[8:14]
    assert (tmp_path / "rank-0004.stacks").stat().st_mode & 0o777 == 0o600


def test_nothing_is_written_through_a_link_or_without_a_folder(tmp_path: Path) -> None:
    (tmp_path / "rank-0003.stacks").symlink_to(tmp_path / "elsewhere")
    assert files.save(STACKS, [worker(3, f"{tmp_path}/rank-0003.json")]) == ""
    assert files.save(STACKS, [worker(3, "/proc/1/fd/3")]) == ""
    assert not (tmp_path / "elsewhere").exists()
