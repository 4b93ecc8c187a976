"""One node of a fleet: how far it has come, and when its silence counts."""

from __future__ import annotations

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.head.fleet.node_connection import MOST_NOTES, ConnectionState, NodeConnection

from ...support.run_nodes import Sink, plan_of


def connection() -> tuple[NodeConnection, Sink]:
    """A node that is connected, and its line."""
    node, sink = NodeConnection(plan_of(1).nodes[0]), Sink()
    node.open(sink)  # type: ignore[arg-type]
    return node, sink


def test_before_it_is_reached_nothing_is_sent_and_nothing_heard() -> None:
    node = NodeConnection(plan_of(1).nodes[0])
    node.send(frames.pack(frames.BEAT, b""))
    node.reset_silence(7.0)
    assert (node.state, node.connected, node.heard(), node.fault()) == (
        ConnectionState.CONNECTING, False, None, "",
    )  # fmt: skip


def test_a_job_is_unanswered_until_there_is_another_connection() -> None:
    node, sink = connection()
    node.send_job(frames.pack(frames.JOB, b"{}"))
    node.send_job(frames.pack(frames.JOB, b"{}"))
    assert (node.unanswered, len(sink.sent)) == (2, 2)
    node.open(Sink())  # type: ignore[arg-type]
    assert node.unanswered == 0


def test_a_closed_connection_says_why_and_takes_nothing() -> None:
    node, sink = connection()
    node.close("no heartbeat")
    node.send(frames.pack(frames.BEAT, b""))
    assert (sink.closed, sink.sent) == (True, [])
    assert (node.state, node.lost) == (ConnectionState.LOST, "no heartbeat")
    node.try_again()
    assert (node.state, node.lost) == (ConnectionState.CONNECTING, "")


def test_silence_counts_once_there_are_beats() -> None:
    node, sink = connection()
    sink.last_received = 5.0
    assert node.heard() is None
    node.beats = True
    assert node.heard() == 5.0
    node.reset_silence(9.0)
    assert node.heard() == 9.0
    node.close("")
    assert node.heard() is None


def test_a_new_connection_has_not_answered_yet() -> None:
    node, _ = connection()
    node.answered = node.beats = True
    node.open(Sink())  # type: ignore[arg-type]
    assert (node.answered, node.beats, node.connected) == (False, False, True)


def test_a_fault_is_the_connections() -> None:
    node, sink = connection()
    sink.fault = "nonsense"
    assert node.fault() == "nonsense"


def test_notes_are_bounded_between_two_beats() -> None:
    node, _ = connection()
    for _ in range(MOST_NOTES):
        node.count_note()
    with pytest.raises(frames.BadFrame, match="notes"):
        node.count_note()
    node.reset_notes()
    for _ in range(MOST_NOTES):
        node.count_note()


def test_the_offset_of_a_clock_is_the_least_that_was_seen() -> None:
    """The least difference is the one with the least delay in it."""
    node, _ = connection()
    node.read_clock(100.0, 107.0)
    node.read_clock(101.0, 106.5)
    node.read_clock(102.0, 112.0)
    assert node.offset == 5.5
