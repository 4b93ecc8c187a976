"""Waiting for the nodes of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.backends.events import EngineEnded, SessionEnded
from dsrun.launcher.features.exec.runner_fleet_connect import LATE, FleetConnect

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.fleet.node_connection import NodeConnection

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


class Played:
    """A fleet that connects; some hosts do not come by themselves."""

    def __init__(self, job: FakeFleet, *absent: str) -> None:
        job.backend.absent |= set(absent)
        self.said: list[str] = []
        self.fleet_connect = FleetConnect(job.fleet, job.connect, 60.0)
        self.fleet_connect.start(self._failed, lambda: self.said.append("ready"))
        job.step()

    def _failed(self, node: NodeConnection, cause: str) -> None:
        self.said.append(f"{node.name}: {cause}")

    @property
    def names(self) -> list[str]:
        return sorted(node.name for node in self.fleet_connect.connected)


def test_it_is_ready_once_all_are_there(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0", "n1", connect=False))
    assert (played.said, played.names) == (["ready"], ["n0", "n1"])


def test_the_late_and_the_failed_are_not_waited_for(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2", connect=False)
    played = Played(job, "n1", "n2")
    job.emit(SessionEnded(1, "no route"))
    assert played.said == ["n1: no route"]
    job.go(61.0)
    assert played.said[1:] == [f"n2: {LATE}", "ready"]
    assert (played.names, list(played.fleet_connect.waiting)) == (["n0"], [])
    job.node("n0").leaves()
    job.emit(SessionEnded(0, "the machine is down"))
    assert len(played.said) == 3, "what uses a node reports its loss"
    causes = {node.name: cause for node, cause in played.fleet_connect.causes.items()}
    assert causes == {"n1": "no route", "n0": "the machine is down"}


def test_the_end_of_the_engine_and_giving_up_are_causes(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", connect=False)
    played = Played(job, "n0", "n1")
    job.emit(EngineEnded("no such partition", 69, killed=False))
    assert played.said == ["n0: no such partition", "n1: no such partition", "ready"]
    other = Played(fleet_of("n0", "n1", connect=False), "n1")
    other.fleet_connect.cancel("stopped")
    assert other.said == ["n1: stopped", "ready"]
