"""A command on nodes of a fleet, by the names of their hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.control import frames
from dsrun.launcher.features.exec.runner_events import (
    HostCommand,
    HostEnded,
    HostFailed,
    HostOutput,
)
from dsrun.launcher.features.exec.runner_node_commands import NodeCommands
from dsrun.launcher.head.fleet.commands import WINDOW, FleetCommands

from ...support.exec_nodes import asked, exits, fed, prints, was_sent

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


class Played:
    """A command on a fleet that a test plays."""

    def __init__(self, job: FakeFleet) -> None:
        self.job = job
        self.events: list[Any] = []
        self.taken: list[Callable[[], None]] = []
        self.rooms = 0
        self.commands = NodeCommands(FleetCommands(job.fleet), self._on_event, self._on_room)

    def _on_event(self, event: object, taken: Callable[[], None]) -> None:
        self.events.append(event)
        self.taken.append(taken)

    def _on_room(self) -> None:
        self.rooms += 1

    def begin(self, *argv: str, readers: frozenset[str] = frozenset()) -> None:
        nodes = list(self.job.fleet.nodes.values())
        self.commands.start(nodes, HostCommand(argv, "/w", readers))
        self.job.step()


def test_output_and_ends_have_the_names_of_hosts(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0", "n1"))
    played.begin("ls", "-l")
    n0, n1 = played.job.nodes()
    assert [asked(node)[0]["argv"] for node in (n0, n1)] == [["ls", "-l"]] * 2
    assert asked(n0)[0]["workdir"] == "/w"
    prints(n0, b"out")
    exits(n0, -9)
    exits(n1, 127, "no such program")
    played.job.step()
    assert [event for event in played.events if event.host == "n0"] == [
        HostOutput("n0", 1, b"out"),
        HostEnded("n0", 137),
    ]
    assert [event for event in played.events if event.host == "n1"] == [
        HostOutput("n1", 2, b"no such program\n"),
        HostEnded("n1", 127),
    ]


def test_a_node_is_lost(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0"))
    played.begin("sleep", "9")
    played.job.node("n0").leaves()
    played.job.step()
    ((host, cause, began),) = played.events
    assert (host, began) == ("n0", True)
    assert isinstance(played.events[0], HostFailed)
    assert "connection" in cause


def test_only_readers_get_input_and_output_waits_until_it_is_taken(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0", "n1"))
    played.begin("cat", readers=frozenset({"n1"}))
    n0, n1 = played.job.nodes()
    played.commands.send(b"abc")
    played.commands.send(b"")
    played.job.step()
    assert (fed(n0), fed(n1)) == ([], [b"abc", b""])
    assert played.commands.unread == 3
    prints(n1, b"x" * (WINDOW // 4))
    played.job.step()
    assert not was_sent(n1, frames.EXEC_CREDIT)
    played.taken[-1]()
    played.job.step()
    assert was_sent(n1, frames.EXEC_CREDIT)


def test_stopping_reaches_every_node(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0", "n1"))
    played.begin("cat", readers=frozenset({"n1"}))
    played.commands.stop()
    played.job.step()
    assert all(was_sent(node, frames.EXEC_STOP) for node in played.job.nodes())
