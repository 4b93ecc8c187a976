"""Sessions without a sign of a node launcher: what is said of them, and when they are given up."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.backends.events import (
    EngineOutput,
    SessionOutput,
    SessionsBegun,
    SessionStarted,
    TokenAnnounced,
)
from dsrun.launcher.backends.stdio import SessionStream
from dsrun.launcher.control.frames import MAGIC, SEND_PACKAGE
from dsrun.launcher.head.fleet.mutes import ADVICE, SHOWN
from dsrun.launcher.specs.policies import SupervisionPolicy

from ...support.fake_fleet import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

NOTHING = "no sign of its node launcher for 10 s; its session printed nothing"
LATE = "no sign of its node launcher for 60 s (--start_timeout)"


class Sessions:
    """Sessions on a fleet, as ssh opens them."""

    def __init__(self) -> None:
        self.far: dict[str, socket.socket] = {}

    def open(self, job: FakeFleet, name: str) -> SessionStream:
        """Open the session of a host."""
        (node,) = [one for one in job.plan if one.host.name == name]
        ours, self.far[name] = socket.socketpair()
        with ours:
            stream = SessionStream(os.dup(ours.fileno()), os.dup(ours.fileno()))
        job.emit(SessionStarted(node.rank, stream))
        return stream

    def close(self) -> None:
        """Close the other ends."""
        for one in self.far.values():
            one.close()


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    made = Sessions()
    yield made
    made.close()


def waiting(fleet_of: FleetOf, *names: str, **more: Any) -> FakeFleet:
    """A run that has begun, of whose nodes none is there yet."""
    job = fleet_of(*names, connect=False)
    job.run(supervision=SupervisionPolicy(heartbeat_timeout=job.fleet.lease, **more))
    return job


def told(job: FakeFleet) -> list[str]:
    """Return the warnings since the last time."""
    return job.said("warning")


def test_a_session_that_says_nothing_is_told_of_and_then_given_up(
    fleet_of: FleetOf, sessions: Sessions
) -> None:
    job = waiting(fleet_of, "n0", "n1")
    for name in ("n0", "n1"):
        sessions.open(job, name)
    job.go(9.0)
    assert told(job) == []
    job.go(2.0)
    assert told(job) == [f"n0, n1: {NOTHING}"]
    job.go(48.0)
    assert told(job) == []
    job.go(2.0)
    nothing = f"{LATE}; its session printed nothing; {ADVICE}"
    assert refusal(job.prepared[0]) == [f"n0, n1: {nothing}"]


def test_what_it_has_printed_is_shown_escaped_and_its_end(
    fleet_of: FleetOf, sessions: Sessions
) -> None:
    job = waiting(fleet_of, "n0")
    stream = sessions.open(job, "n0")
    sessions.far["n0"].sendall(b"x" * 500 + b"\x1b]0;title\x07\nname: ")
    stream.errors = b"no \xe2\x80\xae terminal"
    job.go(11.0)
    (line,) = told(job)
    assert line.startswith("n0: no sign of its node launcher for 10 s; its session printed: ..")
    assert line.endswith(r"\x1b]0;title\x07\nname: no \u202e terminal")
    assert line.count("x" * 100) == 1
    assert line.count("x") < SHOWN + 10


@pytest.mark.parametrize("sign", [MAGIC, SEND_PACKAGE])
def test_a_sign_is_an_answer_or_the_question_for_dsrun(
    sign: bytes, fleet_of: FleetOf, sessions: Sessions
) -> None:
    """After it the node has the time of the whole start."""
    job = waiting(fleet_of, "n0")
    sessions.open(job, "n0")
    sessions.far["n0"].sendall(b"Welcome\n" + sign)
    job.go(100.0)
    assert told(job) == []
    assert not job.prepared[0].state.ending


@pytest.mark.parametrize(("typed", "late"), [(20.0, 20), (120.0, 120)])
def test_the_users_own_limit_counts(
    typed: float, late: int, fleet_of: FleetOf, sessions: Sessions
) -> None:
    job = waiting(fleet_of, "n0", sign_timeout=typed)
    sessions.open(job, "n0")
    job.go(late - 1.5)
    assert not job.prepared[0].state.ending
    job.go(3.0)
    assert refusal(job.prepared[0])[0].startswith(f"n0: no sign of its node launcher for {late}")


def test_a_session_that_is_not_open_yet_is_not_counted(
    fleet_of: FleetOf, sessions: Sessions
) -> None:
    job = waiting(fleet_of, "n0")
    stream = sessions.open(job, "n0")
    stream.begun = float("inf")
    job.go(50.0)
    stream.begun = job.loop.awake()
    job.go(9.0)
    assert told(job) == []
    job.go(2.0)
    assert told(job) == [f"n0: {NOTHING}"]


def test_nodes_that_a_command_starts_count_from_then_on(fleet_of: FleetOf) -> None:
    """So the time in the queue of a scheduler does not, nor that before somebody dials in."""
    job = waiting(fleet_of, "n0", "n1")
    job.go(100.0)
    assert told(job) == []
    job.emit(SessionsBegun((0, 1)))
    job.emit(TokenAnnounced(1, "n1", "token"))
    job.emit(SessionOutput(0, "sh: \x1b[5m"))
    job.emit(SessionOutput(0, "stty: no terminal"))
    job.go(11.0)
    said = r"sh: \x1b[5m\nstty: no terminal"
    what = f"no sign of its node launcher for 10 s; its session printed: {said}"
    assert told(job) == [f"n0: {what}"]
    job.go(50.0)
    (failed,) = [node for node in job.prepared[0].state.nodes if node.settled]
    assert (failed.name, failed.reason.startswith(LATE)) == ("n0", True)


def test_what_an_engine_has_printed_of_no_node_is_shown(fleet_of: FleetOf) -> None:
    job = waiting(fleet_of, "n0")
    job.emit(SessionsBegun((0,)))
    job.emit(EngineOutput("mpiexec: bad address: fd00::1"))
    job.go(11.0)
    assert told(job) == [
        "n0: no sign of its node launcher for 10 s; so far: mpiexec: bad address: fd00::1"
    ]


def test_as_long_as_others_come_the_rest_is_waited_for(fleet_of: FleetOf) -> None:
    names = [f"n{number}" for number in range(20)]
    job = waiting(fleet_of, *names)
    job.emit(SessionsBegun(tuple(range(20))))
    for number in range(19):
        job.go(8.0)
        job.emit(TokenAnnounced(number, names[number], f"token {number}"))
    assert not any(node.settled for node in job.prepared[0].state.nodes)
    assert told(job) == []
    job.go(62.0)
    assert [node.name for node in job.prepared[0].state.nodes if node.settled] == ["n19"]
