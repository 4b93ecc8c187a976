"""START: a node's place in the plan, and how much output may be under way."""

from __future__ import annotations

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.head.run.start_message import (
    StagedStart,
    round_frames,
    start_message,
    window,
    world_of,
)
from dsrun.launcher.resources.world_info import decode
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Plan, by_task, lay_out
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.rendezvous import Rendezvous

from ...support.run_nodes import SentNode, plan_of, sent_nodes

MIB = 1 << 20


def test_every_node_is_told_its_place() -> None:
    plan = plan_of(3)
    told = [start_message(plan, node, "10.0.0.1", 29500, 7, "w") for node in plan.nodes]
    assert [(one.node_rank, one.first_rank, one.slots) for one in told] == [
        (0, 0, (0, 1)), (1, 2, (0, 1)), (2, 4, (0, 1)),
    ]  # fmt: skip
    assert {(one.world_size, one.nodes, one.master_addr, one.master_port) for one in told} == {
        (6, 3, "10.0.0.1", 29500)
    }
    assert {(one.credit, one.world, one.only) for one in told} == {(7, "w", None)}


def test_a_task_of_an_engine_is_told_the_place_of_its_host() -> None:
    plan = by_task(
        Plan(lay_out([Host("a", (0, 1)), Host("b", (0,))]), Program("x"), "mpich", None, None)
    )
    told = [start_message(plan, node, "m", 1, 1, "") for node in plan.nodes]
    assert [(one.node_rank, one.nodes, one.first_rank, one.only, one.slots) for one in told] == [
        (0, 2, 0, 0, (0, 1)), (0, 2, 0, 1, (0, 1)), (1, 2, 2, 0, (0,)),
    ]  # fmt: skip
    assert decode(world_of(plan)) == {"a": (0, 1), "b": (0,)}


def test_the_world_is_that_of_the_plan() -> None:
    assert decode(world_of(plan_of(2))) == {"n0": (0, 1), "n1": (0, 1)}


def test_torchs_rendezvous_knows_the_nodes_and_not_the_plan() -> None:
    plan = plan_of(2)._replace(rendezvous=Rendezvous("c10d", "n0:1", "id", 1, 2, {}, "", 0, 0.1))
    assert world_of(plan) == ""


@pytest.mark.parametrize(
    ("nodes", "size"),
    [(1, MIB), (64, MIB), (65, 64 * MIB // 65), (1024, MIB // 16), (5000, MIB // 16)],
)
def test_all_windows_together_are_bounded(nodes: int, size: int) -> None:
    assert window(nodes) == size


def test_each_node_has_its_own_place_and_all_have_the_rest() -> None:
    nodes = lay_out([Host("a", (0, 1)), Host("b", (2,)), Host("c", ("x", "y"))])
    start = messages.Start(
        0, (0, 1), 5, 0, 3, "10.0.0.1", 4000, 1 << 20, generation=3, restarts=1, max_restarts=9,
        world="e30=",
    )  # fmt: skip
    every = [
        message
        for frame in round_frames(start, nodes)
        for kind, body in frames.Decoder().feed(frame)
        if kind == frames.ROUND and (message := messages.unpack(messages.Start, body))
    ]
    assert every == [
        start,
        start._replace(first_rank=2, slots=(2,), node_rank=1),
        start._replace(first_rank=3, slots=("x", "y"), node_rank=2),
    ]


def kept_back(*, begins: bool) -> tuple[StagedStart, list[SentNode], list[str]]:
    """A start that three nodes are sent, and what it has told to send, by the nodes' names."""
    nodes, sent = sent_nodes(plan_of(3)), list[str]()
    staged = StagedStart(nodes[0], lambda nodes, _frame: sent.extend(node.name for node in nodes))
    staged.send([(node, b"START") for node in nodes], begins=begins)
    return staged, nodes, sent


def test_the_others_start_once_the_first_has_answered_or_is_lost() -> None:
    staged, nodes, sent = kept_back(begins=True)
    assert (sent, [node.begun for node in nodes]) == (["n0"], [True, False, False])
    staged.on_answer(nodes[1])
    assert sent == ["n0"], "it is not the first"
    for _ in range(2):
        staged.on_answer(nodes[0])
    assert (sent, all(node.begun for node in nodes)) == (["n0", "n1", "n2"], True)


def test_a_start_for_a_round_begins_no_workers() -> None:
    staged, nodes, sent = kept_back(begins=False)
    staged.on_answer(nodes[0])
    assert (sent, [node.begun for node in nodes]) == (["n0", "n1", "n2"], [False] * 3)


@pytest.mark.parametrize(("cancel", "left"), [(False, ["n0", "n2"]), (True, ["n0"])])
def test_a_start_that_is_dropped_is_not_sent(cancel: bool, left: list[str]) -> None:
    staged, nodes, sent = kept_back(begins=True)
    staged.cancel() if cancel else staged.remove(nodes[1])
    staged.on_answer(nodes[0])
    assert sent == left
