"""What each node of a job does, and what has happened to the current round."""

from __future__ import annotations

from dsrun.launcher.features.elastic.runner_round_state import (
    CurrentRound,
    MemberState,
    NodeStates,
    RoundPhase,
)

from ...support.clock import Clock


def test_a_node_has_one_state_at_a_time() -> None:
    nodes = NodeStates(2)
    nodes.move([0], MemberState.READY)
    assert (nodes.starting, nodes.ready, nodes.running) == ({1}, {0}, set())
    nodes.move([1, 0], MemberState.RUNNING)
    assert (nodes.starting, nodes.ready, nodes.running) == (set(), set(), {0, 1})
    nodes.move([0], MemberState.READY)
    assert (nodes.starting, nodes.ready, nodes.running) == (set(), {0}, {1})


def test_nodes_come_and_go() -> None:
    nodes = NodeStates(1)
    nodes.move([7], MemberState.STARTING)
    assert (len(nodes), 0 in nodes, 7 in nodes, nodes.starting) == (2, True, True, {0, 7})
    nodes.remove(0)
    nodes.remove(3)
    assert (len(nodes), 0 in nodes) == (1, False)
    nodes.clear()
    assert not nodes


def test_a_node_that_leaves_is_not_counted() -> None:
    nodes = NodeStates(2)
    nodes.move([1], MemberState.LEAVING)
    assert (len(nodes), 1 in nodes, nodes.leaving) == (1, False, {1})
    nodes.clear()
    assert (len(nodes), nodes.leaving) == (0, {1})


def test_a_round_is_complete_once_all_of_its_nodes_have_finished() -> None:
    present = CurrentRound((3, 5))
    present.finished.add(5)
    assert (present.phase, present.complete) == (RoundPhase.RUNNING, False)
    present.finished.add(3)
    assert present.complete


def test_before_the_first_round_nothing_is_complete() -> None:
    assert not CurrentRound().complete


def test_nothing_is_watched_once_it_has_ended() -> None:
    clock = Clock()
    present, late = CurrentRound((3, 5)), list[int]()
    present.watch(clock.timers, 5.0, lambda: late.append(5))
    present.watch(clock.timers, 9.0, lambda: late.append(9))
    clock.go(6.0)
    present.cancel()
    clock.go(6.0)
    assert late == [5]


def test_failures_end_nothing_before_all_losses_are_known() -> None:
    clock = Clock()
    present, told = CurrentRound((3, 5)), list[int]()
    present.await_losses(clock.timers, 2.0, lambda: told.append(present.undecided))
    present.await_losses(clock.timers, 3.0, lambda: told.append(present.undecided))
    assert (present.undecided, told) == (2, [])
    clock.go(4.0)
    assert told == [1, 0]
