"""A run that has begun on nodes that a test plays, and a caller that asks it as dsrun-job does."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from dsrun.launcher.control import frames, local
from dsrun.launcher.features.jobs.runner_socket import (
    JobSocket,
    RunAccess,
    RunHistory,
    only_run,
    verbs_of,
)
from dsrun.launcher.head.doors import VERBS

from .limits import HANG
from .local_control import request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsrun.launcher.head.doors import JobVerb
    from dsrun.launcher.head.job.control import Programs
    from dsrun.launcher.head.run.run import Run

    from .fake_fleet import FakeFleet


def new_job_id() -> str:
    """Return an id that no other test uses."""
    return f"20261122-010203-{os.urandom(3).hex()}"


class AskedRun:
    """A run with its socket.

    Attributes:
        run: the run.
        socket: where it is asked.
    """

    def __init__(self, fleet: FakeFleet, run: Run, table: Mapping[str, JobVerb] = VERBS) -> None:
        self.fleet, self.run = fleet, run
        self.seen = RunHistory(run.loop.clock)
        run.observe(self.seen.on_event)
        access = RunAccess(run.view, run.handle, run.log, run.fleet, self.seen)
        programs = cast("Programs", SimpleNamespace(roles=("",)))
        verbs = verbs_of(programs, only_run(access), table)
        self.socket = JobSocket(run.loop, run.spec.job_id, verbs, run.log)
        self._lines: dict[socket.socket, frames.Decoder] = {}

    def call(self) -> socket.socket:
        """Return a connection to the run."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(HANG)
        line.connect(f"\0{local.address(local.JOB, self.run.spec.job_id)}")
        self._lines[line] = frames.Decoder()
        return line

    def ask(self, line: socket.socket | None = None, **fields: object) -> list[tuple[int, Any]]:
        """Send a request; return the frames that have arrived: (kind, message or bytes)."""
        line = line or self.call()
        line.sendall(request(id=1, **fields))
        return self.got(line)

    def got(self, line: socket.socket) -> list[tuple[int, Any]]:
        """Return what has arrived meanwhile."""
        self.fleet.step()
        data = b""
        line.setblocking(False)
        with suppress(BlockingIOError, ConnectionResetError):
            while more := line.recv(1 << 20):
                data += more
        line.settimeout(HANG)
        return [
            (kind, body if kind == frames.CHUNK else frames.unpack_json(body))
            for kind, body in self._lines[line].feed(data)
        ]

    def answer(self, **fields: object) -> dict[str, Any]:
        """Send a request; return its answer."""
        ((kind, answer),) = self.ask(None, **fields)
        assert kind == frames.ANSWER
        return dict(answer)

    def error(self, **fields: object) -> str:
        """Send a request that is refused; return why."""
        answer = self.answer(**fields)
        assert (answer["ok"], answer["code"]) == (False, 2)
        return str(answer["error"])

    def prints(self, name: str, rank: int, data: bytes, stream: int = 1) -> None:
        """Have a rank print on a node."""
        self.fleet.node(name).says(frames.pack_output(rank, stream, data))
        self.fleet.step()

    def close(self) -> None:
        """End all connections, and the socket."""
        for line in self._lines:
            line.close()
        self.fleet.step()
        self.socket.close()


def chunks(got: Sequence[tuple[int, Any]]) -> list[tuple[int, int, bytes]]:
    """Return the output among what has arrived: (rank, stream, bytes)."""
    found = [body for kind, body in got if kind == frames.CHUNK]
    return [(int.from_bytes(one[:4], "big"), one[4], one[5:]) for one in found]


def events(got: Sequence[tuple[int, Any]]) -> list[dict[str, Any]]:
    """Return the events among what has arrived."""
    return [message for kind, message in got if kind == frames.EVENT]
