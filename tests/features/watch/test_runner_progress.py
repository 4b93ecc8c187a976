"""Rounds that fail one after another without progress end a job."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from dsrun.launcher.features.watch.runner_progress import newest
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.specs.policies import EXPECT, Rule, WatchPolicy

from ...support.elastic_run import Job
from ...support.fake_fleet import story
from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...support.elastic_run import FleetOf

LONG = HANG
"""Seconds to wait for a thread."""


def played(fleet_of: FleetOf, rounds: int, expect: str = "", checkpoints: str = "") -> Job:
    rules = (Rule(EXPECT, expect),) if expect else ()
    watch = WatchPolicy(0.0, "report", rules, rounds, checkpoints)
    job = Job(fleet_of("n0"), restarts=99, watch=watch)
    job.ready()
    begin(job)
    return job


def begin(job: Job) -> None:
    job.join("n0")
    job.fleet.go(99.0)
    job.up("n0")


def fail(job: Job) -> None:
    job.fleet.node("n0").exits(1, 7)
    job.fleet.step()


def settle(job: Job, happened: Callable[[], bool]) -> None:
    """Let happen what a thread has a part in."""
    end = time.monotonic() + LONG
    while not happened():
        assert time.monotonic() < end, "it does not happen"
        job.fleet.step()
        time.sleep(0.001)


def test_failed_rounds_without_an_expected_line_end_the_job(fleet_of: FleetOf) -> None:
    job = played(fleet_of, 2, "^saved")
    fail(job)
    assert job.run.state.phase is RunPhase.RUNNING
    begin(job)
    job.fleet.node("n0").prints(0, "not saved\n")
    fail(job)
    assert job.run.state.stopping
    job.fleet.node("n0").stops(0)
    job.fleet.step()
    end = story(job.run)
    why = "2 rounds in a row without progress: no line has matched '^saved'"
    assert (end["exit_code"], end["cause"], end["failures"]) == (77, "no progress", [])
    assert end["lost"] == [{"host": "", "reason": why}]


def test_a_round_with_progress_counts_anew(fleet_of: FleetOf) -> None:
    job = played(fleet_of, 2, "^saved")
    for _ in range(3):
        fail(job)
        begin(job)
        job.fleet.node("n0").prints(0, "saved 1\n")
        fail(job)
        begin(job)
    assert job.run.state.phase is RunPhase.RUNNING


def test_a_round_that_changes_or_fails_twice_counts_once(fleet_of: FleetOf) -> None:
    job = played(fleet_of, 2, "^saved")
    fail(job)
    job.fleet.node("n0").exits(0, 9)
    job.fleet.step()
    assert not job.run.state.stopping
    begin(job)
    job.fleet.node("n0").exits(0, -15, told=True)
    job.fleet.step()
    assert not job.run.state.stopping, "a worker that was told to stop has not failed"


def test_a_new_checkpoint_is_progress(fleet_of: FleetOf, tmp_path: Path) -> None:
    (tmp_path / "0.pt").touch()
    threads = set(threading.enumerate())
    job = played(fleet_of, 1, checkpoints=f"{tmp_path}/*.pt")
    settle(job, lambda: threads.issuperset(threading.enumerate()))
    job.fleet.step()
    saved = tmp_path / "1.pt"
    saved.touch()
    later = time.time_ns() + 10**9
    os.utime(saved, ns=(later, later))
    fail(job)
    settle(job, lambda: threads.issuperset(threading.enumerate()))
    begin(job)
    assert not job.run.state.stopping
    fail(job)
    settle(job, lambda: job.run.state.stopping)
    why = f"1 round in a row without progress: no new file {tmp_path}/*.pt"
    assert job.fleet.said("warning")[-1] == f"{why}: stopping the job"


def test_the_newest_file_of_a_pattern(tmp_path: Path) -> None:
    pattern = f"{tmp_path}/**/*.pt"
    assert newest(pattern) == 0
    for at, name in ((3, "a.pt"), (5, "deep/b.pt"), (9, "c.txt")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (at, at))
    (tmp_path / "gone.pt").symlink_to("nowhere")
    assert newest(pattern) == 5 * 10**9
