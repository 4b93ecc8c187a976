"""Commands over a fleet that is connected for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.backends.events import EngineEnded, SessionEnded
from dsrun.launcher.control import frames
from dsrun.launcher.features.exec.runner_events import (
    HostCommand,
    HostEnded,
    HostFailed,
    HostOutput,
)
from dsrun.launcher.features.exec.runner_fleet_connect import LATE
from dsrun.launcher.features.exec.runner_fleet_hosts import FleetHosts
from dsrun.launcher.features.exec.runner_ssh_hosts import NOT_READY, STOPPED
from dsrun.launcher.head.fleet.commands import WINDOW

from ...support.exec_nodes import asked, exits, fed, prints, was_sent

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


class Played:
    """The transport over a fleet that a test plays; some hosts do not come by themselves."""

    def __init__(self, job: FakeFleet, *absent: str) -> None:
        self.job = job
        job.backend.absent |= set(absent)
        self.events: list[Any] = []
        self.hosts = FleetHosts(job.fleet, job.connect, 300.0)
        self.hosts.on_event = self.events.append

    def start(self, *argv: str, readers: frozenset[str] = frozenset()) -> None:
        self.hosts.start(HostCommand(argv, "", readers))
        self.job.step()


def test_the_command_begins_once_all_are_there(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0", "n1", connect=False))
    assert list(played.hosts.hosts) == ["n0", "n1"]
    played.start("ls")
    for node in played.job.nodes():
        assert asked(node)[0]["argv"] == ["ls"]
        exits(node, 3)
    played.job.step()
    assert sorted(played.events) == [HostEnded("n0", 3), HostEnded("n1", 3)]


def test_a_host_that_does_not_come_does_not_keep_the_others(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0", "n1", "n2", connect=False), "n1", "n2")
    played.start("ls")
    assert asked(played.job.node("n0")) == []
    played.job.emit(SessionEnded(1, "no route"))
    assert played.events == [HostFailed("n1", "no route", began=False)]
    played.job.go(301.0)
    assert played.events[1] == HostFailed("n2", LATE, began=False)
    assert asked(played.job.node("n0"))[0]["argv"] == ["ls"]
    played.job.node("n0").leaves()
    played.job.go(303.0)
    assert [event.host for event in played.events[2:]] == ["n0"], "a loss is reported once"
    assert played.events[2].began


def test_a_session_that_never_began_has_the_cause_that_follows_its_end(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0", "n1", connect=False))
    played.start("ls")
    for node in played.job.nodes():
        node.leaves()
    played.job.step()
    played.job.emit(SessionEnded(1, "unknown host key"))
    played.job.go(5.0)
    assert {event.host: event.began for event in played.events} == {"n0": True, "n1": False}
    assert "unknown host key" in [event.cause for event in played.events]


def test_the_end_of_the_engine_is_the_cause(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0", "n1", connect=False), "n0", "n1")
    played.start("ls")
    played.job.emit(EngineEnded("srun: no such partition", 69, killed=False))
    assert [event.cause for event in played.events] == ["srun: no such partition"] * 2


def test_input_waits_until_the_command_runs(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0", "n1", connect=False), "n1")
    played.start("cat", readers=frozenset({"n0"}))
    assert played.hosts.backlog() == NOT_READY
    rooms = list[int]()
    played.hosts.on_room = lambda: rooms.append(played.hosts.backlog())
    played.job.emit(SessionEnded(1, "no route"))
    assert rooms[-1] == 0
    played.hosts.send(b"abc")
    played.job.step()
    assert fed(played.job.node("n0")) == [b"abc"]
    assert played.hosts.backlog() == 3


def test_paused_output_is_not_taken(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0", connect=False))
    played.start("yes")
    node = played.job.node("n0")
    played.hosts.pause(True)
    prints(node, b"y" * (WINDOW // 4))
    played.job.step()
    assert isinstance(played.events[0], HostOutput)
    assert not was_sent(node, frames.EXEC_CREDIT)
    played.hosts.pause(False)
    played.job.step()
    assert was_sent(node, frames.EXEC_CREDIT)


def test_stopping_gives_up_who_is_not_there(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0", "n1", connect=False), "n1")
    played.start("ls")
    played.hosts.stop()
    assert sorted(played.events) == [
        HostFailed("n0", STOPPED, began=False),
        HostFailed("n1", STOPPED, began=False),
    ]
    played.job.go(301.0)
    assert len(played.events) == 2
    assert asked(played.job.node("n0")) == []


def test_stopping_ends_the_command(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0", connect=False))
    played.start("ls")
    played.hosts.stop()
    played.job.step()
    assert was_sent(played.job.node("n0"), frames.EXEC_STOP)
    played.hosts.close()
    assert played.job.backend.closed == 1
