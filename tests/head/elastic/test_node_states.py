"""Which nodes of a job are alive, and what each of them does."""

from __future__ import annotations

from dsrun.launcher.head.elastic.node_states import NodeStates


def test_a_node_is_in_one_set_at_a_time() -> None:
    nodes = NodeStates(2)
    nodes.joined(0)
    assert (nodes.late, nodes.ready, nodes.running) == ({1}, {0}, set())
    nodes.joined(1)
    nodes.begin({0})
    assert (nodes.late, nodes.ready, nodes.running) == (set(), {1}, {0})
    nodes.joined(0)
    assert (nodes.late, nodes.ready, nodes.running) == (set(), {0, 1}, set())


def test_nodes_come_and_go() -> None:
    nodes = NodeStates(1)
    nodes.came(7)
    nodes.joined(0)
    nodes.came(0)
    assert (len(nodes), 0 in nodes, 7 in nodes, nodes.late) == (2, True, True, {7})
    nodes.left(0)
    nodes.left(3)
    assert (len(nodes), 0 in nodes) == (1, False)
    nodes.clear()
    assert not nodes
