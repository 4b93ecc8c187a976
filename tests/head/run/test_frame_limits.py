"""What a run holds a node to: its own ranks, one end each, and no more output than was granted."""

from __future__ import annotations

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.head.run.run_node import OVERDRAFT

from ...support.run_nodes import SentNode, plan_of, sent_nodes

WINDOW = 1000


def second() -> SentNode:
    """The node of ranks 2 and 3."""
    return sent_nodes(plan_of(2))[1]


def test_a_rank_of_another_node_is_none_of_its_own() -> None:
    node = second()
    for rank in (2, 3):
        node.limits.check_rank(rank)
    for rank in (1, 4, -1):
        with pytest.raises(frames.BadFrame, match=f"rank {rank} is not on this node"):
            node.limits.check_rank(rank)


def test_each_worker_ends_once_a_round() -> None:
    node = second()
    for rank in (2, 3, 2, 3):  # those of the round before come late
        node.limits.check_end(rank)
    with pytest.raises(frames.BadFrame, match="5 exits of 2 workers"):
        node.limits.check_end(2)
    node.assign(node.node)
    node.limits.check_end(2)


def test_output_beyond_what_was_granted_is_refused() -> None:
    node = second()
    node.limits.on_output(WINDOW + OVERDRAFT, WINDOW)
    with pytest.raises(frames.BadFrame, match="but credit for 1000"):
        node.limits.on_output(1, WINDOW)


def test_what_was_printed_is_granted_back_in_quarters() -> None:
    node = second()
    node.limits.on_output(WINDOW, WINDOW)
    node.limits.on_printed(WINDOW // 4 - 1, WINDOW)
    assert node.sink.sent == []
    node.limits.on_printed(1, WINDOW)
    assert [frames.unpack_credit(body) for _, body in node.sink.sent] == [WINDOW // 4]
    node.limits.on_printed(10, WINDOW)
    assert node.kinds == [frames.CREDIT]


def test_printed_output_makes_room_for_more() -> None:
    node = second()
    node.limits.on_output(WINDOW + OVERDRAFT, WINDOW)
    node.limits.on_printed(5, WINDOW)
    node.limits.on_output(5, WINDOW)
    with pytest.raises(frames.BadFrame):
        node.limits.on_output(1, WINDOW)
