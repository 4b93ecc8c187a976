"""The program that talks to the workers' Python about collectives."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.features.full_check.measurements import (
    JoinGroup,
    Pairs,
    Prepare,
    ReadyForCollectives,
    Reduced,
)
from dsrun.launcher.features.full_check.node_collective import CollectiveProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READY = {"missing": "", "torch": "2.9", "backend": "gloo", "ranks": 1, "port": 7, "addresses": []}
ROW = {"places": [0, 1], "latency": 0.5, "bandwidth": 2.0, "wrong": 0}
JOIN = JoinGroup(0, (1, 1), ("10.0.0.1",), 7)


def python(folder: Path, *answers: tuple[object, ...], code: int = 0) -> str:
    """A program in place of Python, which prints some lines before each line that it reads."""
    text = [f"cat <<'END'\n{json.dumps(READY)}\nEND"]
    for some in answers:
        lines = "\n".join(map(json.dumps, some))
        text.append(f"read line; echo \"$line\" >> {folder}/read\ncat <<'END'\n{lines}\nEND")
    script = folder / "python"
    script.write_text("\n".join(["#!/bin/sh", *text, f"exit {code}", ""]))
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def node() -> Iterator[CollectiveProcess]:
    node = CollectiveProcess()
    with closing(node):
        yield node


def test_a_process_is_prepared_and_asked(node: CollectiveProcess, tmp_path: Path) -> None:
    joined, pairs = (ROW, {"failed": ""}), ({"failed": "the other is gone"},)
    ready = node.prepare(Prepare(python(tmp_path, joined, pairs)))
    assert ready == ReadyForCollectives("", "2.9", "gloo", 1, 7, ())
    first = node.reduce(JOIN)
    assert (first.rows, first.failed) == ((Reduced((0, 1), 0.5, 2.0, 0),), "")
    second = node.reduce(Pairs(()))
    assert (second.rows, second.failed) == ((), "the other is gone")
    asked = [json.loads(line) for line in (tmp_path / "read").read_text().splitlines()]
    assert asked[0]["port"] == 7
    assert asked[1] == {"pairs": []}


def test_a_process_that_ends_is_an_error(node: CollectiveProcess, tmp_path: Path) -> None:
    node.prepare(Prepare(python(tmp_path, (ROW,), code=3)))
    with pytest.raises(NodeError, match="exited with code 3"):
        node.reduce(JOIN)


@pytest.mark.parametrize(
    "line", ["NCCL version 2.27.3", "[" * 200_000, "[]", '{"places": [0], "latency": 1e999}', "{}"]
)
def test_a_line_of_something_else_is_an_error(
    line: str, node: CollectiveProcess, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_text(f"{line}\n")
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\ncat {other}\nread line\n")
    script.chmod(0o755)
    with pytest.raises(NodeError, match="the process for collectives printed no answer"):
        node.prepare(Prepare(os.fspath(script)))


def test_nothing_can_be_asked_of_no_process(node: CollectiveProcess, tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="no process"):
        node.reduce(JOIN)
    with pytest.raises(FileNotFoundError):
        node.prepare(Prepare(os.fspath(tmp_path / "none")))
