"""The first node starts first, the others once it has answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.control import frames
from dsrun.launcher.head.run.start_message import StagedStart

from ...support.run_nodes import SentNode, plan_of, sent_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.head.run.run_node import RunNode

START = frames.pack(frames.START, b"{}")


def begun() -> tuple[list[SentNode], StagedStart]:
    nodes = sent_nodes(plan_of(3))
    staged = StagedStart(nodes[2], send)
    staged.send([(node, START) for node in nodes], begins=True)
    return nodes, staged


def send(nodes: Sequence[RunNode], frame: bytes) -> None:
    for node in nodes:
        node.send(frame)


def started(nodes: list[SentNode]) -> list[int]:
    return [len(node.sink.sent) for node in nodes]


def test_the_first_is_started_alone() -> None:
    nodes, staged = begun()
    assert staged.first is nodes[0]
    assert started(nodes) == [1, 0, 0]


def test_its_answer_starts_the_others_once() -> None:
    nodes, staged = begun()
    staged.on_answer(nodes[1])
    assert started(nodes) == [1, 0, 0], "another node's word counts for nothing"
    for _ in range(2):
        staged.on_answer(nodes[0])
    assert started(nodes) == [1, 1, 1]


def test_a_start_that_is_cancelled_starts_nobody() -> None:
    nodes, staged = begun()
    staged.cancel()
    staged.on_answer(nodes[0])
    assert started(nodes) == [1, 0, 0]


def test_a_node_that_is_started_otherwise_gets_no_other_start() -> None:
    """It was released meanwhile, or its node launcher is another one by now."""
    nodes, staged = begun()
    staged.remove(nodes[1])
    staged.on_answer(nodes[0])
    assert started(nodes) == [1, 0, 1]
