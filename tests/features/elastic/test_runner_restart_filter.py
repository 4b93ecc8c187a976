"""Which failures are worth a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.head.run.run_view import RunPhase

from ...support.elastic_run import started

if TYPE_CHECKING:
    from ...support.elastic_run import FleetOf

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 1, in <module>\n'
NO_MODULE = f"{TRACEBACK}ModuleNotFoundError: No module named 'missing'\n"
CLOSED = f"{TRACEBACK}RuntimeError: [gloo/tcp/pair.cc:547] Connection closed by peer [::1]:4711\n"


@pytest.mark.parametrize(("code", "goes_on"), [(-15, True), (7, False)])
def test_only_failures_of_the_given_classes_lead_to_a_restart(
    code: int, goes_on: bool, fleet_of: FleetOf
) -> None:
    job = started(fleet_of("n0"), restart_on=frozenset({"preempted", "node"}))
    job.fleet.node("n0").exits(1, code)
    job.fleet.step()
    assert job.run.state.stopping is not goes_on
    no = "no restart: rank 1 on n0 exited 7; its class is unknown, not node, preempted"
    assert (f"{no} (--restart_on)" in job.fleet.said("warning")) is not goes_on


def test_the_output_of_this_round_counts_and_no_other(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0"), restart_on=frozenset({"script"}))
    job.fleet.node("n0").prints(1, NO_MODULE, 2)
    job.fleet.node("n0").exits(1, 1)
    job.fleet.step()
    assert job.run.state.phase is RunPhase.RUNNING
    job.join("n0")
    job.up("n0")
    job.fleet.node("n0").exits(1, 1)
    job.fleet.step()
    assert job.run.state.stopping


def test_what_others_have_printed_may_be_behind_a_failure(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0"), restart_on=frozenset({"network"}))
    half = len(NO_MODULE) // 2
    job.fleet.node("n0").prints(0, NO_MODULE[:half], 2)
    job.fleet.node("n0").prints(0, "step 1\n", 1)
    job.fleet.node("n0").prints(0, NO_MODULE[half:], 2)
    job.fleet.node("n0").prints(1, CLOSED, 2)
    job.fleet.node("n0").exits(1, 1)
    job.fleet.step()
    assert job.run.state.stopping


def test_the_end_of_a_connection_by_itself_is_one_of_the_network(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0"), restart_on=frozenset({"network"}))
    job.fleet.node("n0").prints(1, CLOSED, 2)
    job.fleet.node("n0").exits(1, 1)
    job.fleet.step()
    assert job.run.state.phase is RunPhase.RUNNING


def test_without_classes_every_failure_does(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0"))
    job.fleet.node("n0").exits(1, 7)
    job.fleet.step()
    assert job.run.state.phase is RunPhase.RUNNING


def test_what_fails_while_a_round_ends_anyway_ends_nothing(fleet_of: FleetOf) -> None:
    job = started(fleet_of("n0"), restart_on=frozenset({"preempted"}))
    job.fleet.node("n0").exits(1, -15)
    job.fleet.node("n0").exits(0, 7)
    job.fleet.step()
    assert job.run.state.phase is RunPhase.RUNNING
