"""The end of what a job has left on this machine, asked through a session."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.control.job_messages import END_JOB, EndedJob, EndJob

from ...support.fake_runner import running, stopped
from ...support.launcher_name import NAME
from ...support.questions import answers, question

if TYPE_CHECKING:
    from ...support.fake_runner import FakeRunner, Steps

pytestmark = pytest.mark.usefixtures("adopting")

WAIT = "import signal; print(flush=True); signal.pause()"


def test_what_another_job_has_left_is_ended_beside_a_run(runner: FakeRunner) -> None:
    env = {"DSRUN_JOB_ID": "other", NAME: "999999999:5"}
    argv = [sys.executable, "-ISc", WAIT]
    # Not a child of the node launcher, whose runs would end it.
    shell = ["sh", "-c", '"$@" & wait', "sh", *argv]

    def history(r: FakeRunner) -> Steps:
        yield from running(r)
        r.sends(frames.QUESTION, question(END_JOB, EndJob("other", 15, 10.0)))
        yield r.got(frames.REPLY)
        (outcome,) = answers(r.received, END_JOB)
        assert (len(outcome.ended), outcome.left) == (2, ())
        assert r.exits() == []
        yield from stopped(r)
        r.sends(frames.QUESTION, question(END_JOB, EndJob("none", 15, 10.0), 2))
        yield r.got(frames.REPLY, 2)
        assert answers(r.received, END_JOB)[1] == EndedJob((), ())
        r.end()

    with subprocess.Popen(shell, env=env, stdout=subprocess.PIPE) as left:
        assert left.stdout
        left.stdout.readline()
        assert runner.play(history) == 0
