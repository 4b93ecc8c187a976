"""What a running job tells for its report: how it does, and what has happened so far."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

from dsrun.launcher import __version__
from dsrun.launcher.control import frames
from dsrun.launcher.features.watch.runner_hang_report import Hang
from dsrun.launcher.head.run.events import RanksStarted, from_json

from ...support.asked_run import AskedRun, chunks, events
from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable

    AskedOf = Callable[..., AskedRun]


def test_a_job_tells_how_it_does(asked: AskedOf) -> None:
    job = asked("n0", "n1")
    job.fleet.go(7)
    answer = job.answer(do="report")
    assert answer["text"].startswith(f"dsrun: job {job.run.spec.job_id} is running: ")
    assert answer["text"].endswith(" of 4 ranks on 2 hosts, 7.0 s")
    report = answer["report"]
    assert (report["exit_code"], report["cause"], report["seconds"]) == (None, "none", 7.0)


def test_a_job_tells_what_it_is(asked: AskedOf) -> None:
    job = asked("n0")
    job.fleet.go(7)
    program = job.run.spec.plan.program
    about = job.answer(do="report")["about"]
    assert about["command"] == shlex.join([program.script, *program.args])
    assert about["version"] == __version__
    assert abs(about["since"] + 7.0 - time.time()) < HANG


def test_events_and_the_newest_output_come_first(asked: AskedOf) -> None:
    job = asked("n0")
    job.prints("n0", 1, b"hello\n")
    assert job.run.state.observers is not None
    job.fleet.go(2)
    job.run.state.observers.tell(RanksStarted("n0", (0, 1)))
    got = job.ask(do="report", events=True)
    assert got[-1][0] == frames.ANSWER
    assert chunks(got) == [(1, 1, b"hello\n")]
    past = [from_json(one["of"]) for one in events(got) if one["event"] == "past"]
    assert past[-1] == RanksStarted("n0", (0, 1))


def test_a_loss_is_told(asked: AskedOf) -> None:
    job = asked("n0", "n1")
    job.run.state.record.lost("n1", "no heartbeat", job.run.loop.clock())
    assert "\n  lost n1: no heartbeat" in job.answer(do="report")["text"]


def test_only_a_hang_that_lasts_is_told(asked: AskedOf) -> None:
    job = asked("n0")
    hang = Hang(5.0, "rank 1 waits", (1,), ("n0",), 60.0)
    job.run.state.record.found += [hang._replace(sentence="rank 0 waits", lasted=70.0), hang]
    assert job.answer(do="report")["text"].splitlines()[1:] == ["  it hangs: rank 1 waits"]
