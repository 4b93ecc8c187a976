"""Commands on connected nodes: what they are sent, what they print, and how they end."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.command_messages import CommandExit
from dsrun.launcher.head.fleet.commands import (
    BLOCK,
    WINDOW,
    CommandEnded,
    CommandInputTaken,
    CommandLost,
    CommandOutput,
    CommandSpec,
    FleetCommands,
    RunningCommands,
)
from dsrun.launcher.head.job.ending import ending_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet
    from ...support.fake_nodes import FakeNode

    FleetOf = Callable[..., FakeFleet]


HALF = BLOCK // 2
"""Half of what returns credit, and less than what a socket holds."""


class Commands:
    """Commands on a fleet that a test plays, and their events."""

    def __init__(self, job: FakeFleet) -> None:
        self.job = job
        self.commands = FleetCommands(job.fleet)
        self.events: list[Any] = []

    def run(self, *argv: str, **more: Any) -> RunningCommands:
        """Start one on all nodes."""
        nodes = list(self.job.fleet.nodes.values())
        running = self.commands.run(nodes, CommandSpec(argv, **more), self.events.append)
        self.job.step()
        return running

    def sent(self, name: str) -> list[tuple[int, bytes]]:
        """What a node has been sent since the last time, without beats."""
        self.job.step()
        node = self.job.node(name)
        new = [(kind, body) for kind, body in node.received if kind != frames.BEAT]
        node.received.clear()
        return new

    def take(self) -> list[Any]:
        """The events since the last time."""
        self.job.step()
        events, self.events[:] = list(self.events), []
        return events


@pytest.fixture
def commands(fleet_of: FleetOf) -> Commands:
    """Commands on two nodes."""
    return Commands(fleet_of("n0", "n1"))


def exits(node: FakeNode, number: int, code: int, hint: str = "") -> None:
    node.says(messages.pack(frames.EXEC_EXIT, CommandExit(number, code, hint)))


def prints(node: FakeNode, number: int, data: bytes, stream: int = 1) -> None:
    node.says(frames.pack_numbered(frames.EXEC_OUTPUT, number, bytes([stream]) + data))


def test_a_command_runs_on_all_nodes_to_its_end_on_each(commands: Commands) -> None:
    running = commands.run("echo", "a b", env={"A": "\udcff"}, workdir="/w", seconds=5.0)
    for name in ("n0", "n1"):
        ((kind, body),) = commands.sent(name)
        assert kind == frames.EXEC
        assert json.loads(body) == {
            "id": 1,
            "argv": ["echo", "a b"],
            "env": {"A": "\udcff"},
            "workdir": "/w",
            "stdin": False,
            "seconds": 5.0,
            "credit": WINDOW,
            "lease": 15.0,
            "program": "",
        }
    n0, n1 = commands.job.nodes()
    prints(n0, 1, b"a b\n")
    prints(n1, 1, b"oops", stream=2)
    exits(n0, 1, 0)
    first, second = running.nodes
    assert [e for e in commands.take() if e.node is first] == [
        CommandOutput(first, 1, b"a b\n"),
        CommandEnded(first, 0, ""),
    ]
    exits(n1, 1, 127, "no such program")
    assert running.nodes == [second]
    assert commands.take() == [CommandEnded(second, 127, "no such program")]
    assert running.nodes == []


def test_two_commands_beside_a_run_are_told_apart(commands: Commands) -> None:
    run = commands.job.start()
    for name in ("n0", "n1"):
        commands.sent(name)
    other = list[Any]()
    node = commands.job.fleet.nodes[0]
    commands.run("first")
    commands.commands.run([node], CommandSpec(["second"]), other.append)
    n0, n1 = commands.job.nodes()
    prints(n0, 2, b"2")
    prints(n0, 1, b"1")
    exits(n0, 2, 0)
    assert commands.take() == [CommandOutput(node, 1, b"1")]
    assert other == [CommandOutput(node, 1, b"2"), CommandEnded(node, 0, "")]
    exits(n0, 1, 0)
    exits(n1, 1, 0)
    commands.job.end_well(run)
    assert len(commands.take()) == 2
    assert ending_of(run.view()).code == 0


def test_output_is_granted_again_as_it_is_taken(commands: Commands) -> None:
    running = commands.run("x")
    n0 = commands.job.node("n0")
    commands.sent("n0")
    outputs = []
    for _ in range(3):
        prints(n0, 1, b"x" * HALF)
        outputs += commands.take()
    running.took(outputs[0])
    assert commands.sent("n0") == []
    running.took(outputs[1])
    credit = [(frames.EXEC_CREDIT, b"\0\0\0\1" + BLOCK.to_bytes(8, "big"))]
    assert commands.sent("n0") == credit
    prints(n0, 1, b"x" * HALF)
    outputs += commands.take()
    running.took(outputs[2])
    running.took(outputs[3])
    assert commands.sent("n0") == credit
    prints(n0, 1, b"x")
    exits(n0, 1, 0)
    (last, _) = commands.take()
    running.took(last)
    assert commands.sent("n0") == []


def test_a_node_that_sends_more_than_it_may_is_lost(commands: Commands) -> None:
    running = commands.run("x")
    n0, n1 = commands.job.nodes()
    for _ in range((WINDOW + BLOCK) // HALF):
        prints(n0, 1, b"x" * HALF)
        assert len(commands.take()) == 1
    prints(n0, 1, b"x")
    (lost,) = commands.take()
    assert isinstance(lost, CommandLost)
    assert "bytes of output, but credit for" in lost.reason
    assert [node.name for node in running.nodes] == ["n1"]
    assert n1.open


@pytest.mark.parametrize(
    "frame",
    [
        frames.pack_numbered(frames.EXEC_OUTPUT, 9, b"\1x"),
        frames.pack_numbered(frames.EXEC_OUTPUT, 1, b"\3x"),
        frames.pack_numbered(frames.EXEC_OUTPUT, 1, b"\1"),
        frames.pack(frames.EXEC_OUTPUT, b"\0"),
        messages.pack(frames.EXEC_EXIT, CommandExit(2, 0, "")),
        frames.pack_exec_count(frames.EXEC_TOOK, 1, 1),
        frames.pack_exec_count(frames.EXEC_TOOK, 2, 0),
        frames.pack_numbered(frames.EXEC_TOOK, 1, b""),
    ],
)
def test_a_node_that_speaks_of_what_is_not_there_is_lost(commands: Commands, frame: bytes) -> None:
    commands.run("x")
    commands.job.node("n0").says(frame)
    (lost,) = commands.take()
    assert (type(lost), lost.node.name) == (CommandLost, "n0")
    assert "invalid frame" in lost.reason


def test_a_node_that_ends_twice_is_lost(commands: Commands) -> None:
    commands.run("x")
    n0 = commands.job.node("n0")
    exits(n0, 1, 0)
    exits(n0, 1, 0)
    (ended,) = commands.take()
    assert isinstance(ended, CommandEnded)
    assert not n0.open


def test_a_command_that_has_ended_everywhere_is_forgotten(commands: Commands) -> None:
    commands.run("x")
    n0, n1 = commands.job.nodes()
    exits(n0, 1, 0)
    exits(n1, 1, 0)
    commands.take()
    prints(n0, 1, b"late")
    commands.job.step()
    assert "there is no command 1" in commands.job.fleet.nodes[0].lost


def test_input_goes_to_all_as_the_slowest_takes_it(commands: Commands) -> None:
    running = commands.run("cat", stdin=True)
    commands.sent("n0")
    running.feed(b"abc")
    assert commands.sent("n0") == [(frames.EXEC_INPUT, b"\0\0\0\1abc")]
    assert running.unread == 3
    n0, n1 = commands.job.nodes()
    n0.says(frames.pack_exec_count(frames.EXEC_TOOK, 1, 3))
    assert commands.take() == [CommandInputTaken(running.nodes[0])]
    assert running.unread == 3
    n1.says(frames.pack_exec_count(frames.EXEC_TOOK, 1, 2))
    commands.take()
    assert running.unread == 1
    running.feed(b"")
    assert commands.sent("n0") == [(frames.EXEC_INPUT, b"\0\0\0\1")]
    exits(n1, 1, 0)
    commands.take()
    assert running.unread == 0


def test_it_is_stopped_where_it_runs(commands: Commands) -> None:
    running = commands.run("sleep")
    n0, n1 = commands.job.nodes()
    exits(n0, 1, 0)
    commands.take()
    commands.sent("n0"), commands.sent("n1")
    running.stop(signal.SIGINT)
    assert commands.sent("n0") == []
    assert commands.sent("n1") == [(frames.EXEC_STOP, b"\0\0\0\1\2")]
    exits(n1, 1, -2)
    assert commands.take() == [CommandEnded(commands.job.fleet.nodes[1], -2, "")]


def test_lost_nodes_are_reported_before_and_after_the_start(commands: Commands) -> None:
    n0, n1 = commands.job.nodes()
    n0.leaves()
    commands.job.step()
    running = commands.run("x")
    (lost,) = commands.take()
    assert (lost.node.name, "connection to its node launcher ended" in lost.reason) == ("n0", True)
    n1.leaves()
    (lost,) = commands.take()
    assert (lost.node.name, running.nodes) == ("n1", [])


def test_a_silent_node_is_lost_without_any_run(commands: Commands) -> None:
    commands.run("x")
    commands.job.go(16.0, silent=["n1"])
    (lost,) = commands.take()
    assert (lost.node.name, lost.reason) == ("n1", "no heartbeat for 15 s")


def test_what_was_lost_is_forgotten_when_the_node_is_back(commands: Commands) -> None:
    commands.run("x")
    commands.job.node("n0").leaves()
    assert len(commands.take()) == 1
    commands.job.fleet.reach(commands.job.fleet.nodes[0])
    commands.run("y")
    commands.job.node("n0").leaves()
    (lost,) = commands.take()
    assert isinstance(lost, CommandLost)
