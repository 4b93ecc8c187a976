"""What each node of a job does."""

from __future__ import annotations

from dsrun.launcher.head.elastic.node_states import NodeState, NodeStates


def test_a_node_has_one_state_at_a_time() -> None:
    nodes = NodeStates(2)
    nodes.move([0], NodeState.READY)
    assert (nodes.starting, nodes.ready, nodes.running) == ({1}, {0}, set())
    nodes.move([1, 0], NodeState.RUNNING)
    assert (nodes.starting, nodes.ready, nodes.running) == (set(), set(), {0, 1})
    nodes.move([0], NodeState.READY)
    assert (nodes.starting, nodes.ready, nodes.running) == (set(), {0}, {1})


def test_nodes_come_and_go() -> None:
    nodes = NodeStates(1)
    nodes.move([7], NodeState.STARTING)
    assert (len(nodes), 0 in nodes, 7 in nodes, nodes.starting) == (2, True, True, {0, 7})
    nodes.remove(0)
    nodes.remove(3)
    assert (len(nodes), 0 in nodes) == (1, False)
    nodes.clear()
    assert not nodes


def test_a_node_that_leaves_is_not_counted() -> None:
    nodes = NodeStates(2)
    nodes.move([1], NodeState.LEAVING)
    assert (len(nodes), 1 in nodes, nodes.leaving) == (1, False, {1})
    nodes.clear()
    assert (len(nodes), nodes.leaving) == (0, {1})
