"""The program `facts`, as a command on a node."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.control import frames, messages
from dsrun.launcher.features.quick_check import node_program as program
from dsrun.launcher.node.programs import command_line
from dsrun.launcher.specs.field_types import reader
from dsrun.launcher.specs.program import Program

if TYPE_CHECKING:
    from pathlib import Path


def task(workdir: Path) -> str:
    env = {"DSRUN_ACCELERATOR": "cpu"}
    made = messages.NodeJob(
        __version__, "j", "n0", Program("check", module=True), str(workdir), env, None, None
    )
    return frames.json_line(made._asdict()).decode()


def test_it_prints_a_hello_with_facts(tmp_path: Path) -> None:
    done = subprocess.run(
        [*command_line("facts"), "--files"],
        input=task(tmp_path),
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    hello = reader("Hello")(found["hello"])
    assert hello.problems == ()
    assert hello.facts is not None
    assert "files" in found
    assert "report" not in found


def test_it_tells_the_sizes_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("123")
    found = program.answer(messages.unpack(messages.NodeJob, task(tmp_path).encode()), ["--files"])
    assert found["files"] == {"a.py": 3}


def test_a_report_has_more_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def report(_setup: object) -> dict[str, Any]:
        return {"os": "x"}

    monkeypatch.setattr("dsrun.launcher.features.quick_check.node_report.report", report)
    found = program.answer(messages.unpack(messages.NodeJob, task(tmp_path).encode()), ["--report"])
    assert found["report"] == {"os": "x"}


@pytest.mark.parametrize("typed", ["", "{\n", '{"dsrun": 1}\n', "\udcff"])
def test_what_is_no_task_is_said(typed: str) -> None:
    done = subprocess.run(
        command_line("facts"),
        input=typed.encode("utf-8", "surrogateescape"),
        capture_output=True,
        check=False,
        cwd="/",
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"facts: expected a task as JSON: ")
    assert done.stderr.count(b"\n") == 1
