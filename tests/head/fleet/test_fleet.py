"""Connected nodes: who is told what of them, and what becomes of those that are lost."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.backends.base import DialBack, Part
from dsrun.launcher.backends.events import (
    BackendWarning,
    EngineEnded,
    EngineOutput,
    SessionEnded,
    SessionStarted,
    TokenAnnounced,
)
from dsrun.launcher.backends.stdio import SessionStream
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control import frames
from dsrun.launcher.control.messages import BEATS, SessionEnd
from dsrun.launcher.head.fleet.events import (
    NodeConnected,
    NodeDisconnected,
    NodeEnded,
    NodeSent,
    NodeSilent,
)
from dsrun.launcher.head.fleet.fleet import HANG_UP, NodeFleet
from dsrun.launcher.head.fleet.node_connection import MOST_NOTES, ConnectionState
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Node, Plan, by_task, lay_out
from dsrun.launcher.specs.program import Program

from ...support.clock import Clock
from ...support.fake_fleet import FakeBackend

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

JOB = frames.pack(frames.JOB, b"{}")
FROM_NODES = (
    *(frames.HELLO, frames.PROBED, frames.OUTPUT, frames.STARTED, frames.EXIT, frames.NOTE),
    *(
        frames.INPUT_ACK,
        frames.DONE,
        frames.SHARD_REQUEST,
        frames.BINDINGS,
        frames.READY,
        frames.RANKS,
    ),
    *(frames.AGENT_FAILED, frames.FINISHED, frames.ACTIVITY),
)


def kinds(events: list[Any]) -> list[tuple[str, str, int | None]]:
    """What has come of nodes: the event, whose it is, and the frame's kind."""
    return [(type(e).__name__, e.node.name, getattr(e, "kind", None)) for e in events]


# -- what cannot be handled ----------------------------------------------------------------------


def test_what_nobody_has_foreseen_ends_only_the_node_that_has_sent_it(
    fleet_of: FleetOf, unexpected_faults: list[Exception]
) -> None:
    job = fleet_of("n0", "n1")
    job.listen("n0", "n1")

    def fails(_node: object, _body: bytes) -> None:
        raise KeyError("x\x1b[2J")

    job.fleet.services[frames.REPLY] = fails
    job.node("n1").says(frames.pack(frames.REPLY))
    job.step()
    fault = f"it sent an invalid frame of kind {frames.REPLY}: KeyError: 'x\\x1b[2J'"
    assert job.fleet.nodes[1].lost == fault
    assert job.fleet.nodes[0].connected
    (traceback,) = job.said("debug")
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert [repr(error) for error in unexpected_faults] == ["KeyError('x\\x1b[2J')"]
    unexpected_faults.clear()


def test_an_error_of_the_user_is_none_of_the_node(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")

    def fails(_node: object, _body: bytes) -> None:
        raise UsageError("--sync: no such folder")

    job.fleet.services[frames.REPLY] = fails
    job.node("n0").says(frames.pack(frames.REPLY))
    with pytest.raises(UsageError):
        job.step()


# -- who is told ----------------------------------------------------------------------------------


def test_every_backend_starts_its_own_nodes_and_each_connection_is_told(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2", connect=False)
    other = FakeBackend()
    job.listen("n0", "n2")
    first = Part(job.backend, job.plan[:2])  # type: ignore[arg-type]
    second = Part(other, job.plan[2:])  # type: ignore[arg-type]
    job.fleet.connect([first, second])
    job.backend.made += other.made
    assert (job.backend.started, other.started) == ([[0, 1]], [[2]])
    assert kinds(job.events) == [("NodeConnected", "n0", None), ("NodeConnected", "n2", None)]
    assert [one.state for one in job.fleet.nodes.values()] == [ConnectionState.CONNECTED] * 3
    assert job.fleet.names == "n0, n1, n2"
    job.fleet.close_at_once()
    assert (job.backend.closed, other.closed) == (1, 1)


def test_events_of_idle_nodes_are_told_as_well(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    idle: list[Any] = []
    job.fleet.on_idle = idle.append
    job.listen("n0")
    job.node("n0").leaves()
    job.node("n1").leaves()
    job.step()
    assert kinds(idle) == [("NodeDisconnected", "n1", None)]
    assert kinds(job.events) == [("NodeDisconnected", "n0", None)]


def test_frames_go_to_the_run_that_uses_the_node_and_to_none_after_it(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    listen = job.listen("n0")
    first = job.events
    job.listen("n1")
    for name in ("n0", "n1", "n2"):
        job.node(name).exits(0, 1)
    job.step()
    assert kinds(first) == [("NodeSent", "n0", frames.EXIT)]
    assert kinds(job.events) == [("NodeSent", "n1", frames.EXIT)]
    job.fleet.take_back(listen)
    for name in ("n0", "n1"):
        job.node(name).exits(0, 1)
    job.step()
    assert (len(first), len(job.events)) == (1, 2)


@pytest.mark.parametrize("kind", [frames.WELCOME, frames.AUTH, frames.START, 99])
def test_a_frame_that_no_node_launcher_sends_costs_it_its_line(
    kind: int, fleet_of: FleetOf
) -> None:
    job = fleet_of("n0")
    job.listen("n0")
    job.node("n0").says(frames.pack(kind, b"{}"))
    job.step()
    ((connection, reason, fault, *_),) = job.events
    assert fault == reason == f"it sent an invalid frame: unexpected kind {kind}"
    assert (connection.state, connection.lost) == (ConnectionState.LOST, fault)


@pytest.mark.parametrize("kind", FROM_NODES)
def test_every_frame_of_a_node_launchers_is_told(kind: int, fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    job.listen("n0")
    job.node("n0").says(frames.pack(kind, b"body"))
    job.step()
    assert job.events == [NodeSent(job.fleet.nodes[0], kind, b"body")]


def test_that_a_runner_may_be_silent_is_told_to_no_run(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    job.listen("n0")
    job.node("n0").grants()
    job.step()
    assert (job.events, job.fleet.nodes[0].connected) == ([], True)


def test_a_node_may_send_no_frame_above_its_limit(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    job.listen("n0")
    head = frames.pack(frames.NOTE)[:1]
    job.node("n0").says(head + (frames.NODE_LIMIT + 1).to_bytes(4, "big"))
    job.step()
    ((_, _, fault, *_),) = job.events
    assert fault.startswith("not a control line: a frame of ")


# -- late frames ----------------------------------------------------------------------------------


def test_what_is_left_of_the_run_before_is_not_the_next_ones(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    node, (connection,) = job.node("n0"), job.fleet.nodes.values()
    listen = job.listen("n0")
    connection.send_job(JOB)
    node.hello()
    job.step()
    assert kinds(job.events) == [("NodeSent", "n0", frames.HELLO)]
    job.fleet.take_back(listen)
    job.listen("n0")
    connection.send_job(JOB)
    node.prints(0, "late")
    node.exits(0, 1)
    node.done()
    node.beats()
    job.step()
    assert kinds(job.events) == [("NodeSent", "n0", frames.BEAT)], "only signs of life are nobody's"
    node.hello()
    node.prints(0, "its own")
    job.step()
    assert [one.kind for one in job.events[1:]] == [frames.HELLO, frames.OUTPUT]


def test_frames_before_the_first_hello_are_for_the_run_to_judge(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    (connection,) = job.fleet.nodes.values()
    job.listen("n0")
    connection.send_job(JOB)
    job.node("n0").exits(0, 1)
    job.step()
    assert kinds(job.events) == [("NodeSent", "n0", frames.EXIT)]


def test_a_hello_to_a_job_that_was_replaced_is_dropped(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    (connection,) = job.fleet.nodes.values()
    listen = job.listen("n0")
    connection.send_job(JOB)
    job.fleet.take_back(listen)
    job.listen("n0")
    connection.send_job(JOB)
    assert not connection.answered
    job.node("n0").hello()
    job.step()
    assert (job.events, connection.answered) == ([], True)
    job.node("n0").hello(hostname="second")
    job.step()
    ((_, kind, body),) = job.events
    assert kind == frames.HELLO
    assert b"second" in body


def test_a_node_that_was_reached_again_owes_no_hello_to_former_jobs(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    (connection,) = job.fleet.nodes.values()
    job.listen("n0")
    connection.send_job(JOB)
    job.fleet.reach(connection)
    job.step()
    connection.send_job(JOB)
    job.node("n0").hello()
    job.step()
    assert kinds(job.events) == [("NodeConnected", "n0", None), ("NodeSent", "n0", frames.HELLO)]


# -- notes ----------------------------------------------------------------------------------------


def test_a_note_between_two_runs_is_shown(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    job.node("n1").notes("got SIGTERM: leaving", 15)
    job.step()
    assert job.said("warning") == ["n1: got SIGTERM: leaving"]


def test_a_flood_of_notes_between_two_runs_costs_the_node_its_line(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", lease=1e9)
    job.fleet.watch()

    def flood(notes: int) -> None:
        for number in range(notes):
            job.node("n1").notes("x")
            if number % 50 == 49:
                job.step()
        job.step()

    for _ in range(2):
        flood(MOST_NOTES)
        job.clock.go(1e9 / BEATS)
        job.step()
    said = job.said("warning")
    assert said == ["n1: x"] * 2 * MOST_NOTES, "so many are allowed from beat to beat"
    flood(MOST_NOTES + 1)
    *_, last = job.said("warning")
    fault = f"it sent an invalid frame of kind 37: more than {MOST_NOTES} notes at a time"
    assert last == f"lost n1: {fault}"
    assert job.fleet.nodes[1].lost == fault


# -- lost -----------------------------------------------------------------------------------------


def test_the_end_of_a_line_is_told_to_the_run_that_uses_the_node(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    job.listen("n0")
    job.node("n0").leaves()
    job.step()
    node = job.fleet.nodes[0]
    ended = "the connection to its node launcher ended (closed by the other end)"
    reason = "closed by the other end"
    assert job.events == [NodeDisconnected(node, reason, "", direct=False, lost=ended)]
    assert node.lost == ended
    assert job.said() == []


@pytest.mark.parametrize("silent", [False, True])
def test_a_loss_is_told_to_who_used_the_node_if_another_takes_it_meanwhile(
    silent: bool, fleet_of: FleetOf
) -> None:
    """As a role does that has lost a lane of the node, and starts again."""
    job = fleet_of("n0", "n1")
    job.listen("n0")
    node = job.fleet.nodes[0]
    other: list[Any] = []
    job.fleet.expect_beats(node)
    job.fleet.watch()

    def take(_reason: str) -> None:
        node.on_event = other.append
        node.try_again()

    node.on_close.append(take)
    if silent:
        job.go(15, silent=["n0"])
    else:
        job.node("n0").leaves()
        job.step()
    loss = next(one for one in job.events if isinstance(one, (NodeDisconnected, NodeSilent)))
    assert loss.lost
    assert other == []


def test_the_loss_of_a_node_that_no_run_uses_is_said_with_its_name(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    job.listen("n0")
    job.node("n1").leaves()
    job.step()
    ended = "the connection to its node launcher ended (closed by the other end)"
    assert job.said("warning") == [f"lost n1: {ended}"]
    assert job.events == []


def test_a_clock_is_read_from_every_beat(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    for ahead in (7.0, 9.0, 8.0):
        job.node("n0").says(frames.pack_beat(job.clock.now + ahead))
    job.step()
    assert job.fleet.nodes[0].offset == -9.0


# -- sessions -------------------------------------------------------------------------------------


def test_a_session_that_never_stood_is_told_with_its_cause(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", connect=False)
    job.backend.absent = {"n1"}
    job.listen("n0", "n1")
    job.connect()
    job.emit(SessionEnded(1, "connection refused"))
    node = job.fleet.nodes[1]
    assert job.events[1:] == [NodeEnded(node, "connection refused")]
    assert (node.state, node.lost) == (ConnectionState.LOST, "connection refused")


def test_the_end_of_a_session_whose_line_still_stands_loses_nothing(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    job.listen("n0")
    job.emit(SessionEnded(0, "ssh has left"))
    assert job.events == [NodeEnded(job.fleet.nodes[0], "ssh has left")]
    assert job.fleet.nodes[0].connected


def test_what_an_engine_says_goes_to_every_run_and_what_a_backend_warns_of_to_the_user(
    fleet_of: FleetOf,
) -> None:
    job = fleet_of("n0", "n1")
    listen = job.listen("n0")
    first = job.events
    job.listen("n1")
    tokens: list[tuple[int, str, str]] = []
    job.fleet.on_token = lambda *told: tokens.append(told)
    job.emit(EngineOutput("mpirun: hello"))
    job.emit(TokenAnnounced(1, "n1", "secret"))
    job.emit(BackendWarning("a new host key"))
    job.fleet.take_back(listen)
    job.emit(EngineEnded("mpirun exited", 1, False))
    assert first == [EngineOutput("mpirun: hello")]
    assert job.events == [EngineOutput("mpirun: hello"), EngineEnded("mpirun exited", 1, False)]
    assert tokens == [(1, "n1", "secret")]
    assert job.said("warning") == ["a new host key"]


def test_a_cause_counts_for_the_connection_of_its_session_alone(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    job.listen("n0")
    job.emit(SessionEnded(0, "killed by SIGKILL"))
    job.node("n0").leaves()
    job.step()
    node = job.fleet.nodes[0]
    assert node.lost == "killed by SIGKILL"
    job.fleet.reach(node)
    job.step()
    job.node("n0").leaves()
    job.step()
    assert node.lost == "the connection to its node launcher ended (closed by the other end)"


# -- reached again, added -------------------------------------------------------------------------


def test_a_lost_node_is_reached_again_by_its_backend(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    job.listen("n1")
    before = job.node("n1")
    before.leaves()
    job.step()
    node = job.fleet.nodes[1]
    job.backend.absent = {"n1"}
    job.fleet.reach(node)
    assert (node.state, node.lost) == (ConnectionState.CONNECTING, "")
    job.backend.absent = set()
    job.fleet.reach(node)
    job.step()
    assert job.backend.started == [[0, 1], [1], [1]]
    assert kinds(job.events)[1:] == [("NodeConnected", "n1", None)]
    assert (node.state, node.lost) == (ConnectionState.CONNECTED, "")
    assert job.node("n1") is not before


def test_what_becomes_of_a_session_that_was_replaced_does_not_count(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    node = job.fleet.nodes[1]
    node.close("done")
    job.backend.absent = {"n1"}
    job.fleet.reach(node)
    heard = job.listen("n1")
    before, now = job.backend.emits
    before(SessionEnded(1, "exit code 1"))
    ours, theirs = socket.socketpair()
    before(SessionStarted(1, SessionStream(os.dup(ours.fileno()), ours.detach())))
    assert (theirs.recv(1), node.state, job.events) == (b"", ConnectionState.CONNECTING, [])
    theirs.close()
    now(SessionEnded(1, "refused"))
    assert job.events == [NodeEnded(node, "refused")]
    job.fleet.take_back(heard)


def test_what_a_backend_cannot_start_again_is_the_cause_of_its_end(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    job.listen("n1")
    job.backend.refusal = "mpirun cannot add hosts"
    node = job.fleet.nodes[1]
    job.fleet.reach(node)
    assert job.events == [NodeEnded(node, "mpirun cannot add hosts")]
    assert (node.state, node.lost) == (ConnectionState.LOST, "mpirun cannot add hosts")


@pytest.mark.parametrize(("transport", "allowed"), [("dial", [1]), ("stdio", [])])
def test_who_dials_again_is_allowed_to_announce_itself_once_more(
    transport: Any, allowed: list[int], fleet_of: FleetOf
) -> None:
    job = fleet_of("n0", "n1", connect=False)
    job.backend.transport = transport
    again: list[int] = []
    dial = DialBack("here:1", "pin", again.append)
    job.connect(dial)
    assert again == []
    job.fleet.reach(job.fleet.nodes[1])
    assert (again, job.backend.dial) == (allowed, dial)


def test_a_node_that_is_added_gets_a_backend_of_its_own_once(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    listen = job.listen("n0")
    added = Node(1, Host("x", (0,)), None, (0,))
    connection = job.fleet.add(added)
    job.fleet.lend_more(connection, listen)
    assert job.fleet.find(added) is connection is job.fleet.nodes[1]
    for _ in range(2):
        job.fleet.reach(connection)
    assert job.backend.started == [[0], [1], [1]]
    assert job.events == [NodeConnected(connection)] * 2
    assert (connection.used, connection.on_event) == (1, listen)


def test_for_each_added_node_its_backend_is_made_once() -> None:
    made: list[Node] = []
    backend = FakeBackend()
    backend.absent = {"x"}

    def part(node: Node) -> Part:
        made.append(node)
        return Part(backend, [node])  # type: ignore[arg-type]

    fleet = NodeFleet([], Clock().loop, lambda _text, _level: None, 15.0, part)
    node = Node(0, Host("x"), None, None)
    connection = fleet.add(node)
    fleet.reach(connection)
    fleet.reach(connection)
    assert made == [node]
    fleet.close_at_once()
    assert backend.closed == 1


def test_nodes_of_a_plan_are_found_by_their_hosts_and_the_rank_there(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    (only,) = lay_out([Host("n1", (0,))])
    assert job.fleet.find(only) is job.fleet.nodes[1]
    assert job.fleet.find(lay_out([Host("n2")])[0]) is None
    tasks = by_task(Plan(lay_out([Host("n0", (0, 1))]), Program("x"), "slurm", None, None)).nodes
    by_rank = NodeFleet(tasks, job.loop, job.console.log, 15.0)
    assert [by_rank.find(task) for task in tasks] == list(by_rank.nodes.values())
    assert by_rank.find(only) is None


# -- the end --------------------------------------------------------------------------------------


def test_at_the_end_all_are_told_and_waited_for(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    for node in job.nodes():
        node.hello()
    job.step()
    before = job.clock.now
    job.fleet.close(SessionEnd(3, "story"))
    for node in job.nodes():
        assert node.frames() == [["END", {"code": 3, "report": "story"}]]
        assert not node.open
    assert (job.clock.now, job.said()) == (before, [])
    assert not any(node.connected for node in job.fleet.nodes.values())


def advancing(job: FakeFleet) -> None:
    """Let time pass by itself."""

    def tick() -> None:
        job.clock.now += 0.25
        job.loop.call_later(0.0, tick)

    job.loop.call_later(0.0, tick)


def test_who_does_not_leave_is_waited_for_only_so_long(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    for node in job.nodes():
        node.hello()
    job.step()
    job.loop.remove(job.node("n0").fd)  # reads no more
    began = job.clock.now
    advancing(job)
    job.fleet.close(SessionEnd(0, ""))
    assert HANG_UP <= job.clock.now - began <= HANG_UP + 1
    assert [node.connected for node in job.fleet.nodes.values()] == [True, False]
    job.fleet.close_at_once()
    assert job.fleet.nodes[0].lost == "the runner has disconnected"


def test_who_has_not_answered_is_not_waited_for(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    began = job.clock.now
    job.fleet.close(SessionEnd(0, ""))
    assert job.clock.now == began
    assert job.fleet.nodes[0].connected
    assert job.kinds("n0") == ["END"]


def test_disconnect_closes_every_line_and_each_backend_once(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    job.listen("n0", "n1")
    job.fleet.watch()
    job.fleet.close_at_once()
    job.step()
    job.go(15)
    assert job.backend.closed == 1
    assert [node.lost for node in job.fleet.nodes.values()] == ["the runner has disconnected"] * 2
    assert not any(node.open for node in job.nodes())
    assert (job.events, job.said()) == ([], [])
