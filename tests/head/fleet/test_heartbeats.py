"""Heartbeats between the runner and its nodes, on a clock that goes when told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import system
from dsrun.launcher.control import frames
from dsrun.launcher.control.messages import SessionEnd
from dsrun.launcher.head.fleet.events import NodeSent, NodeSilent
from dsrun.launcher.head.fleet.heartbeats import CHECKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

JOB = frames.pack(frames.JOB, b"{}")


def test_a_runner_that_was_busy_itself_counts_the_silence_anew(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", lease=16.0)
    job.listen("n0")
    node = job.fleet.nodes[0]
    job.fleet.expect_beats(node)
    job.fleet.watch()
    job.go(2.0, silent=["n0"])
    job.clock.go(21.0)
    assert node.connected
    busy = "dsrun itself was busy or stopped for 20 s; the nodes' timeouts restart"
    assert job.said("warning") == [busy]
    job.go(15.5, silent=["n0"])
    assert node.connected
    job.go(0.5, silent=["n0"])
    assert node.lost == "no heartbeat for 16 s"
    assert job.said("warning") == []


def test_silence_counts_from_the_end_of_a_suspension(
    fleet_of: FleetOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = fleet_of("n0", lease=16.0)
    job.listen("n0")
    node = job.fleet.nodes[0]
    job.fleet.expect_beats(node)
    job.fleet.watch()

    def sleep(_pid: int, _number: int) -> None:
        job.clock.now += 1000.0

    monkeypatch.setattr(system, "kill", sleep)
    job.fleet.suspend()
    job.go(1.0, silent=["n0"])
    assert job.clock.now > 1000.0
    job.go(15.0, silent=["n0"])
    assert node.connected
    assert job.said("warning") == []


def test_a_silent_node_is_lost_after_the_lease_and_not_before(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    job.listen("n0", "n1", "n2")
    for number in (0, 1):
        job.fleet.expect_beats(job.fleet.nodes[number])
    job.fleet.watch()
    job.go(14.5, silent=["n1", "n2"])
    assert [e for e in job.events if not isinstance(e, NodeSent)] == []
    job.go(0.5, silent=["n1", "n2"])
    told = [e for e in job.events if not isinstance(e, NodeSent)]
    assert told == [NodeSilent(job.fleet.nodes[1], 15.0, "no heartbeat for 15 s")]
    assert [one.lost for one in job.fleet.nodes.values()] == ["", "no heartbeat for 15 s", ""]
    job.go(60, silent=["n2"])
    assert job.fleet.nodes[2].connected, "it was not started, so its silence is no sign"
    assert job.said() == []


def test_a_held_node_that_makes_the_checks_of_a_job_may_be_silent(fleet_of: FleetOf) -> None:
    """A script that it sources for the workers may take as long as it likes."""
    job = fleet_of("n0")
    node = job.fleet.nodes[0]
    job.fleet.expect_beats(node)
    job.fleet.watch()
    node.send_job(JOB)
    job.go(14.0 + CHECKS, silent=["n0"])
    assert node.connected
    job.node("n0").hello()
    job.go(14.0, silent=["n0"])
    assert node.connected
    job.go(2.0, silent=["n0"])
    assert node.lost == "no heartbeat for 15 s"


def test_a_node_that_owes_a_heartbeat_for_a_job_has_no_time_for_its_checks(
    fleet_of: FleetOf,
) -> None:
    job = fleet_of("n0", "n1")
    for node in job.fleet.nodes.values():
        job.fleet.expect_beats(node)
        node.unconfirmed = True
        node.send_job(JOB)
    job.fleet.watch()
    job.node("n1").beats()
    job.step()
    job.go(16.0, silent=["n0", "n1"])
    assert [node.connected for node in job.fleet.nodes.values()] == [False, True]


def test_silence_counts_from_the_moment_that_beats_are_expected(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    job.fleet.watch()
    job.go(30, silent=["n0"])
    job.fleet.expect_beats(job.fleet.nodes[0])
    job.go(14.5, silent=["n0"])
    assert job.fleet.nodes[0].connected
    job.go(1, silent=["n0"])
    assert job.said("warning") == ["lost n0: no heartbeat for 15 s"]


def test_signs_of_life_are_sent_sixteen_times_in_the_lease_and_begin_once(
    fleet_of: FleetOf,
) -> None:
    job = fleet_of("n0", lease=16.0)
    job.fleet.watch()
    job.fleet.watch()
    job.go(16.0)
    beats = [kind for kind, _ in job.node("n0").received if kind == frames.BEAT]
    assert len(beats) == 17


def test_no_signs_of_life_are_sent_once_it_is_closing(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    job.loop.remove(job.node("n0").fd)
    job.fleet.watch()
    job.fleet.close(SessionEnd(0, ""))
    job.go(60)
    job.loop.add_reader(job.node("n0").fd, job.node("n0").read)
    job.step()
    assert [kind for kind, _ in job.node("n0").received] == [frames.BEAT, frames.END]
