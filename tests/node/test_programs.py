"""Programs of dsrun on a node: how they are started."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from dsrun.launcher.common.errors import USAGE
from dsrun.launcher.control import frames
from dsrun.launcher.node.programs import command_line, run

from .session.test_commands import ends, printed, runs

if TYPE_CHECKING:
    import pytest

    from ..support.fake_runner import FakeRunner, Steps


def test_an_unknown_program_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("absent", []) == USAGE
    assert capsys.readouterr().err == "dsrun: no such program: 'absent'\n"


def test_its_command_starts_the_dsrun_of_this_process() -> None:
    argv = [*command_line("absent"), "word"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd="/")
    assert (done.returncode, done.stderr) == (USAGE, "dsrun: no such program: 'absent'\n")


def test_a_runner_starts_it_as_a_command(runner: FakeRunner) -> None:
    def history(r: FakeRunner) -> Steps:
        runs(r, program="absent")
        yield r.got(frames.EXEC_EXIT)
        assert printed(r, stream=2) == b"dsrun: no such program: 'absent'\n"
        assert ends(r) == [(1, USAGE, "")]
        r.end()

    assert runner.play(history) == 0
