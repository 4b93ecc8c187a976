"""Lost nodes are looked for, with growing pauses, not too many at once."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.elastic.runner_reconnector import AT_ONCE, PACE
from dsrun.launcher.features.hold.runner_nodes import PAUSES, NodeKeeper
from dsrun.launcher.head.fleet.events import NodeConnected, NodeDisconnected, NodeEnded, NodeSilent
from dsrun.launcher.head.fleet.node_connection import NodeConnection
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Node

from ...support.clock import Clock


class Lost:
    """A keeper, and what it does."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.tried: list[tuple[float, str]] = []
        self.said: list[str] = []
        self.keeper = NodeKeeper(self.clock.loop, self.reach, self.said.append)

    def node(self, name: str = "n0", lost: str = "closed") -> NodeConnection:
        made = NodeConnection(Node(0, Host(name), 0, (0,)))
        made.close(lost)
        return made

    def reach(self, node: NodeConnection) -> None:
        self.tried.append((round(self.clock.now - 50.0), node.name))

    def go(self, seconds: float) -> None:
        for _ in range(round(seconds / PACE)):
            self.clock.go(PACE)


def test_pauses_grow_until_the_node_is_back() -> None:
    lost = Lost()
    node = lost.node()
    lost.keeper.on_event(NodeDisconnected(node, "closed", "", direct=True, lost="closed"))
    assert lost.keeper.reasons == {node: "closed"}
    for _ in range(6):
        tries = len(lost.tried)
        while len(lost.tried) == tries:
            lost.go(PACE)
        lost.keeper.failed(node, "no route")
    times = [at for at, _ in lost.tried]
    pauses = [later - earlier for earlier, later in zip([0, *times], times, strict=False)]
    assert pauses == pytest.approx([PAUSES.first, 4, 8, 16, 32, PAUSES.longest], abs=1)
    assert lost.keeper.reasons == {node: "no route"}
    assert lost.said == []
    lost.go(PAUSES.longest)
    lost.keeper.back(node)
    assert lost.said == ["n0 is back"]
    assert lost.keeper.reasons == {}
    lost.go(2 * PAUSES.longest + 1)
    lost.keeper.on_event(NodeSilent(node, 15.0, "no heartbeat for 15 s"))
    lost.go(PAUSES.first + 1)
    assert len(lost.tried) == 8, "the pauses begin anew"


def test_the_cause_that_a_backend_knows_is_the_reason() -> None:
    lost = Lost()
    node, other = lost.node(), lost.node("n1")
    lost.keeper.on_event(NodeDisconnected(node, "closed", "", direct=True, lost="closed"))
    lost.keeper.on_event(NodeEnded(node, "killed by SIGKILL"))
    lost.keeper.on_event(NodeEnded(node, ""))
    lost.keeper.on_event(NodeEnded(other, "not one that is lost"))
    assert lost.keeper.reasons == {node: "killed by SIGKILL"}


def test_few_are_tried_at_a_time() -> None:
    lost = Lost()
    nodes = [lost.node(f"n{at}") for at in range(AT_ONCE + 2)]
    for node in nodes:
        lost.keeper.lost(node)
        lost.keeper.lost(node)
    lost.go(PAUSES.first + 1)
    assert len(lost.tried) == AT_ONCE
    lost.keeper.back(nodes[0])
    lost.keeper.failed(nodes[1], "no route")
    lost.go(1)
    assert [name for _, name in lost.tried[AT_ONCE:]] == ["n16", "n17"]


def test_a_connection_that_nobody_waits_for_is_asked_anew_and_none_once_closed() -> None:
    lost = Lost()
    lost.keeper.on_event(NodeConnected(lost.node(lost="")))
    assert list(lost.keeper.reasons.values()) == ["its connection was lost"]
    lost.keeper.close()
    lost.go(PAUSES.first + 1)
    assert lost.tried == []


def test_whoever_is_to_know_is_told_of_each_loss_and_each_attempt_that_has_failed() -> None:
    lost, told = Lost(), list[str]()
    node = lost.node()
    lost.keeper.on_missing = lambda: told.append(lost.keeper.reasons[node])
    lost.keeper.lost(node)
    lost.keeper.lost(node)
    assert told == ["closed"]
    lost.keeper.failed(node, "no route")
    assert told == ["closed", "no route"]
