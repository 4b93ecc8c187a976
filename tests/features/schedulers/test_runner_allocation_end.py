"""A run on the nodes of a Slurm job, whose workers end as that does: Slurm is asked."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrun.launcher.backends.events import EngineEnded
from dsrun.launcher.features.schedulers.runner_allocation_end import LIVES, PATIENCE, ask, words
from dsrun.launcher.head.run import run_signals
from dsrun.launcher.head.run.run_view import RunPhase

from ...support.fake_fleet import story
from ...support.limits import HANG
from ...support.properties import same_examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.run.run import Run

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]
    SlurmSays = Callable[..., None]

SHOWN = "JobId=7 JobName=x UserId=u(1) {} Requeue=1 Restarts=0 ExitCode=0:0 PreemptTime=None\n"
RUNS, OVER = SHOWN.format("JobState=RUNNING"), SHOWN.format("JobState=COMPLETING")
TERM, INT = signal.SIGTERM, signal.SIGINT


# -- what scontrol says ---------------------------------------------------------------------------


@pytest.mark.parametrize("state", sorted(LIVES))
def test_a_job_that_goes_on(state: str) -> None:
    assert words("7", SHOWN.format(f"JobState={state}")) == ""


@pytest.mark.parametrize(
    "state",
    ["CANCELLED", "COMPLETING", "COMPLETED", "FAILED", "NODE_FAIL", "PENDING", "PREEMPTED"],
)
def test_a_job_that_has_ended_or_is_in_the_queue_again(state: str) -> None:
    assert words("7", SHOWN.format(f"JobState={state}")) == f"Slurm job 7 has ended ({state})"


def test_a_job_that_gives_way_to_another_still_runs() -> None:
    shown = RUNS.replace("PreemptTime=None", "PreemptTime=2026-11-29T02:10:04")
    assert words("7", shown) == "Slurm job 7 is being preempted"


def test_a_job_that_slurm_has_forgotten() -> None:
    said = "slurm_load_jobs error: Invalid job id specified\n"
    assert words("7", said) == "Slurm job 7 has ended (Slurm no longer has it)"


@pytest.mark.parametrize(
    "said",
    ["", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"],
)
def test_without_an_answer_nothing_is_known(said: str) -> None:
    assert words("7", said) == ""


@same_examples
@given(st.text())
def test_any_answer_is_read(said: str) -> None:
    assert isinstance(words("7", said), str)


# -- a run ----------------------------------------------------------------------------------------


@pytest.fixture
def slurm_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmSays:
    """Have this process be in Slurm job 7, of which scontrol says something.

    `asked` exists once it was asked.
    """
    tool = tmp_path / "scontrol"

    def says(text: str, *, then: str = "") -> None:
        (tmp_path / "said").write_text(text)
        run = f"echo $* > {tmp_path}/asked; cat {tmp_path}/said; {then}"
        tool.write_text(f"#!/bin/sh\n{run}\n")
        tool.chmod(0o755)

    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return says


def wait_for(job: FakeFleet, happened: Callable[[], bool]) -> None:
    """Let happen what can, until another process has had its part in something."""
    end = time.monotonic() + HANG
    while not happened():
        assert time.monotonic() < end, "it does not happen"
        job.step()
        time.sleep(0.001)


def over(job: FakeFleet, run: Run) -> dict[str, object]:
    """Return the report of a run, once it is over and Slurm has been asked."""
    wait_for(job, lambda: run.state.phase is RunPhase.OVER and not children())
    return story(run)


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def test_workers_that_end_well_with_their_allocation_are_cancelled(
    fleet_of: FleetOf, slurm_says: SlurmSays, tmp_path: Path
) -> None:
    slurm_says(OVER)
    job = fleet_of("n0", "n1")
    run = job.start(plan={"launcher": "slurm"})
    job.said()
    job.end_well(run)
    told = over(job, run)
    assert (told["exit_code"], told["cause"], told["signal"]) == (143, "signal", TERM)
    assert job.said() == ["Slurm job 7 has ended (COMPLETING), and the ranks with it"]
    assert (tmp_path / "asked").read_text() == "--oneliner show job 7\n"


@pytest.mark.parametrize("said", [RUNS, ""])
def test_workers_that_end_well_in_an_allocation_that_goes_on(
    fleet_of: FleetOf, slurm_says: SlurmSays, said: str
) -> None:
    slurm_says(said)
    job = fleet_of("n0", "n1")
    run = job.start(plan={"launcher": "slurm"})
    job.end_well(run)
    assert over(job, run)["exit_code"] == 0


def test_with_another_launcher_nobody_is_asked(
    fleet_of: FleetOf, slurm_says: SlurmSays, tmp_path: Path
) -> None:
    """The variable may be of a job that has ended long ago."""
    slurm_says(OVER)
    job = fleet_of("n0", "n1")
    run = job.start()
    job.end_well(run)
    assert story(run)["exit_code"] == 0
    assert not (tmp_path / "asked").exists()


def test_slurm_that_does_not_answer_is_not_waited_for(
    fleet_of: FleetOf, slurm_says: SlurmSays, tmp_path: Path
) -> None:
    slurm_says("", then="exec sleep 600")
    job = fleet_of("n0", "n1")
    run = job.start(plan={"launcher": "slurm"})
    job.end_well(run)
    wait_for(job, (tmp_path / "asked").exists)
    assert run.state.phase is RunPhase.ENDING
    job.go(PATIENCE)
    assert over(job, run)["exit_code"] == 0


@pytest.mark.parametrize(("code", "expected"), [(-TERM, 143), (143, 143), (-INT, 143), (7, 7)])
def test_the_first_worker_that_the_end_of_the_allocation_has_ended_is_not_the_cause(
    fleet_of: FleetOf, slurm_says: SlurmSays, code: int, expected: int
) -> None:
    slurm_says(OVER)
    job = fleet_of("n0", "n1")
    run = job.start(plan={"launcher": "slurm"})
    job.node("n1").exits(2, code)
    job.step()
    job.node("n0").stops(0, 1)
    job.node("n1").stops(3)
    told = over(job, run)
    assert told["exit_code"] == expected
    assert told["cause"] == ("signal" if expected == 143 else "failure")


@pytest.mark.parametrize(("said", "expected"), [(OVER, (143, "signal")), (RUNS, (75, "lost"))])
def test_an_engine_that_ends_with_the_allocation_is_not_the_cause(
    fleet_of: FleetOf, slurm_says: SlurmSays, said: str, expected: tuple[int, str]
) -> None:
    slurm_says(said)
    job = fleet_of("n0", "n1")
    run = job.start(plan={"launcher": "slurm"})
    job.emit(EngineEnded("srun ended (SIGTERM)", 75, killed=False))
    job.node("n0").stops(0, 1)
    job.node("n1").stops(2, 3)
    told = over(job, run)
    assert (told["exit_code"], told["cause"]) == expected


def test_a_lost_node_stays_the_cause_where_slurm_ends_the_job_for_that(
    fleet_of: FleetOf, slurm_says: SlurmSays, tmp_path: Path
) -> None:
    slurm_says(SHOWN.format("JobState=NODE_FAIL"))
    job = fleet_of("n0", "n1")
    run = job.start(plan={"launcher": "slurm"})
    job.go(20.0, silent=["n1"])
    job.node("n0").stops(0, 1)
    told = over(job, run)
    assert (told["exit_code"], told["cause"]) == (75, "lost")
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("number", [TERM, INT])
def test_a_signal_that_comes_before_the_answer_is_why(
    fleet_of: FleetOf, slurm_says: SlurmSays, number: int
) -> None:
    slurm_says(RUNS)
    job = fleet_of("n0", "n1")
    run = job.start(plan={"launcher": "slurm"})
    for node in job.nodes():
        node.exits(2 * (node.name == "n1"), 0)
        node.exits(1 + 2 * (node.name == "n1"), 0)
        node.done()
    while run.state.phase is not RunPhase.ENDING:
        job.clock.go(0.0)
    run.handle(run_signals.on_end_signal, number)
    assert over(job, run)["exit_code"] == 128 + number


def test_so_is_one_that_a_node_tells_of_after_its_workers(
    fleet_of: FleetOf, slurm_says: SlurmSays, tmp_path: Path
) -> None:
    slurm_says(RUNS, then="exec sleep 600")
    job = fleet_of("n0", "n1")
    run = job.start(plan={"launcher": "slurm"})
    job.end_well(run)
    wait_for(job, (tmp_path / "asked").exists)
    job.node("n1").notes("the node launcher received SIGTERM", TERM)
    assert over(job, run)["exit_code"] == 143


def test_outside_of_a_job_nobody_is_asked(fleet_of: FleetOf) -> None:
    heard: list[str] = []
    job = fleet_of("n0")
    ask(job.loop, {}, heard.append)
    job.step()
    assert heard == [""]
