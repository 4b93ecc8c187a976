"""The end of what a job has left on this machine, asked through a session."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames
from dsrun.launcher.control.job_messages import END_JOB, EndedJob, EndJob
from dsrun.launcher.features.jobs.node_job_end import JobEndAnswers
from dsrun.launcher.node.answers import QuestionContext, QuestionReply

from ...support.fake_runner import running, stopped
from ...support.launcher_name import NAME
from ...support.leaks import open_files
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


STAYS = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"


def test_who_asks_no_more_stops_the_end_as_it_is() -> None:
    env = {"DSRUN_JOB_ID": "other", NAME: "999999999:5"}
    argv = [sys.executable, "-ISc", STAYS]
    replies: list[bytes] = []
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as left:
        assert left.stdout
        left.stdout.readline()
        answers = JobEndAnswers(QuestionContext(Loop(), tuple))
        before = open_files()
        answers.ask(EndJob("other", 15, 600.0), QuestionReply(replies.append, 1, "end_job"))
        assert open_files() != before, "the process is watched"
        answers.close()
        assert open_files() == before
        assert left.poll() is None
        left.kill()
    assert replies == []
