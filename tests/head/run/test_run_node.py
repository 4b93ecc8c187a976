"""The state of a node in a run, and its place there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import system
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control import frames
from dsrun.launcher.control.messages import Done, Hello
from dsrun.launcher.head.run.run_node import (
    NOT_REACHED,
    NodeState,
    assigned,
    members,
)

from ...support.run_nodes import SentNode, plan_of, sent_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


def second() -> SentNode:
    """The node of ranks 2 and 3."""
    return sent_nodes(plan_of(2))[1]


def hello() -> Hello:
    """What a node says that has nothing to complain of."""
    return Hello("0.1.0", "n1", "m", "3.11.7", "cpu", (), 2, None, ("10.0.0.1",), (), 0.0)


def test_its_wall_clock_is_between_those_of_request_and_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(system, "time", lambda: 1000.0)
    node = second()
    node.read_wall(1005.0, 2.0)
    assert node.ahead == (5.0, 7.0)


def test_ranks_of_a_former_round_may_still_be_told_of() -> None:
    plan = plan_of(2)
    nodes = sent_nodes(plan)
    assert [len(assigned(plan, nodes[1:]).nodes), nodes[1].node.first_rank] == [1, 0]
    for rank in (0, 1, 2, 3):
        nodes[1].limits.check_rank(rank)


def test_a_node_is_over_when_it_is_done_or_lost() -> None:
    node = second()
    assert not node.over
    node.lose("no route")
    assert (node.over, node.lost) == (True, "no route")
    node.admit(node.node)
    assert (node.over, node.lost) == (False, "")
    node.finish(Done((), {}))
    assert node.over
    node.reset()
    assert not node.over


def test_a_lost_node_stays_lost_until_it_is_admitted() -> None:
    node = second()
    node.lose("no route")
    node.finish(Done((), {}))
    node.reset()
    node.answer(hello())
    assert node.state is NodeState.LOST
    node.admit(node.node)
    assert (node.state, node.reason) == (NodeState.READY, "")


def test_a_host_that_was_added_is_not_there_yet() -> None:
    node = second()
    node.await_first()
    assert (node.over, node.lost) == (True, NOT_REACHED)
    node.lose("no route")
    assert (node.state, node.lost) == (NodeState.LOST, "no route")


def test_another_hello_is_awaited() -> None:
    node = second()
    node.answer(hello())
    assert node.state is NodeState.READY
    node.ask_again()
    assert (node.state, node.hello) == (NodeState.STARTING, None)


def test_a_node_is_settled_when_it_cannot_take_part() -> None:
    node = second()
    assert not node.settled
    node.fail("no python")
    assert node.settled


def test_nothing_is_swept_before_its_guard_says_so() -> None:
    (node,) = sent_nodes(plan_of(1))
    assert not node.cleaned_up
    node.begun, node.cleaned_up, node.left = True, True, "may still run"
    node.reset()
    assert (node.cleaned_up, node.left) == (False, "")


def test_what_may_run_there_is_not_forgotten_before_somebody_has_looked() -> None:
    (node,) = sent_nodes(plan_of(1))
    node.left = "may still run"
    node.reset()
    assert node.left == "may still run"


def test_workers_may_run_there_from_their_order_on() -> None:
    (node,) = sent_nodes(plan_of(1))
    assert node.state is NodeState.STARTING
    node.start()
    assert node.begun
    node.reset()
    assert node.state is NodeState.STARTING


def test_a_run_has_those_nodes_of_its_plan_that_the_fleet_has(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    plan = plan_of(3)
    found = members(plan._replace(nodes=plan.nodes[1:]), job.fleet)
    assert [(one.name, one.number, one.node) for one in found] == [("n1", 0, plan.nodes[1])]
    assert found[0].connection is job.fleet.nodes[1]
    with pytest.raises(UsageError, match=r"^n2: not among the connected nodes: n0, n1$"):
        members(plan._replace(nodes=plan.nodes[2:]), job.fleet)


def test_a_worker_ends_once_in_each_round_and_that_of_the_previous_one_may_come_late() -> None:
    limits = second().limits
    for rank in (2, 3, 2, 3):
        limits.check_end(rank)
    with pytest.raises(frames.BadFrame, match=r"^5 exits of 2 workers$"):
        limits.check_end(2)
    limits.assign((2, 3))
    limits.check_end(2)
    with pytest.raises(frames.BadFrame, match=r"^rank 0 is not on this node$"):
        limits.check_end(0)
