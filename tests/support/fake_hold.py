"""A hold whose nodes a test plays, and clients of it: real requests, on a clock that is told.

The output of runs goes to real pipes, so a test waits for what comes out of them.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from dsrun.launcher.control import frames
from dsrun.launcher.control.local import LocalStream
from dsrun.launcher.features.hold.runner import Hold
from dsrun.launcher.features.hold.runner_requests import verbs
from dsrun.launcher.features.jobs.runner_server import LocalServer
from dsrun.launcher.head.job.one_program import OneProgram
from dsrun.launcher.head.run.run_state import RunState
from dsrun.launcher.specs import codec
from dsrun.launcher.specs.hold import HoldSpec
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.roles import RoleSpec, RolesSpec

from .fake_fleet import FakeFleet
from .limits import HANG
from .local_control import received

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dsrun.launcher.head.output.console import Console
    from dsrun.launcher.head.run.run_view import RunView
    from dsrun.launcher.specs.host import Host, Slot

LONG = HANG
"""Seconds after which something that a thread has to do is given up."""

CHECK = Program("check", module=True, local_rank=False)


class FakeHold:
    """A hold, its nodes, and its clients.

    Attributes:
        job: the nodes and the clock.
        hold: the real one.
    """

    def __init__(
        self, *hosts: Host | str, idle_timeout: float = 0.0, launcher: str = "ssh", **job: Any
    ) -> None:
        self.job = FakeFleet(*hosts)
        plan = Plan(self.job.plan, CHECK, launcher, None, None)
        spec = HoldSpec("lab", JobSpec("hold-1", plan, "/", held=True, **job), idle_timeout)
        self.hold = Hold(spec, self.job.fleet, cast("Console", self.job.console))
        self.clients: list[Client] = []
        self.hold.start()
        self.job.connect()

    def ready(self) -> FakeHold:
        """Have all nodes answer what they are."""
        self.answer(*self.job.hosts)
        return self

    def answer(self, *names: str, **facts: Any) -> None:
        """Have nodes answer that they can take part, and that they reach the first of them."""
        first, *others = self.job.nodes(*names)
        first.hello(**{"port": 29500} | facts)
        for node in others:
            node.hello(**{"port": None} | facts)
        self.job.step()
        for node in others:
            node.reaches()
        self.job.step()
        for node in (first, *others):
            node.received.clear()

    def client(self) -> Client:
        """Return a new client."""
        self.clients.append(Client(self))
        return self.clients[-1]

    def run_of(self, job: str) -> RunView:
        """Return the run of a job that has begun."""
        program = self.hold.runs[job].job.programs
        assert isinstance(program, OneProgram)
        return program.view()

    def wait_for(self, happened: Callable[[], bool]) -> None:
        """Let happen what can, until something that a thread has a part in has happened."""
        end = time.monotonic() + LONG
        while not happened():
            assert time.monotonic() < end, "it does not happen"
            self.job.step()
            time.sleep(0.001)

    def close(self) -> None:
        """Close what a test has left open."""
        for client in self.clients:
            client.leave()
        self.job.step()
        for run in tuple(self.hold.runs.values()):
            if isinstance(run.job.programs, OneProgram):
                run.job.programs.handle(RunState.finish)
        with suppress(AssertionError):
            self.wait_for(lambda: not self.hold.runs)
        self.job.close()


class Client:
    """A client: its end of a connection, and the streams that it gives to its runs.

    Attributes:
        got: the frames that have come, (kind, message).
    """

    def __init__(self, fake: FakeHold) -> None:
        self._fake = fake
        self._line, theirs = socket.socketpair()
        self._server = LocalServer(fake.job.loop, theirs, verbs(fake.hold))
        self._stream = LocalStream(self._line)
        self._pipes: dict[int, bytes] = {}
        self._count = 0
        self.got: list[tuple[int, Any]] = []

    def ask(self, do: str, fds: Sequence[int] = (), **fields: Any) -> dict[str, Any] | None:
        """Send a request; return its answer, None if there is none yet."""
        self._count += 1
        message = {"do": do, "id": self._count, "fds": len(fds), **fields}
        self._stream.send_with(frames.pack_json(frames.REQUEST, message), fds)
        self._fake.job.step()
        return self.answer_to(self._count)

    def answer_to(self, number: int) -> dict[str, Any] | None:
        """Return the answer to a request, None if there is none yet."""
        self.got += received(self._line)
        answers = [one for kind, one in self.got if kind == frames.ANSWER and one["id"] == number]
        return answers[0] if answers else None

    def run(
        self,
        job: str,
        places: Mapping[str, Sequence[Slot]],
        busy: str = "wait",
        relay: int | None = None,
        role: str = "",
        **spec: Any,
    ) -> dict[str, Any] | None:
        """Ask for a run on these slots; return an answer that comes at once.

        With `relay`, its events are sent to the client, with so many streams to print on. With
        `role`, that is the name of the job's one role.
        """
        hosts = [self._fake.job.hosts[name]._replace(slots=tuple(s)) for name, s in places.items()]
        plan = Plan(lay_out(hosts), Program("x.py"), "ssh", None, None)
        wanted: Any = JobSpec(**{"job_id": job, "plan": plan, "workdir": "/work"} | spec)
        streams = [self._pipe() for _ in range(2)]
        null = os.open(os.devnull, os.O_RDONLY)
        fds = [null, *streams]
        more = {} if relay is None else {"relay": True}
        if role:
            wanted, more["roles"] = RolesSpec(wanted, (RoleSpec(role, wanted, "job"),)), True
        sent = fds[: 3 if relay is None else 1 + relay]
        answer = self.ask("run", sent, spec=codec.encode(wanted), busy=busy, **more)
        for fd in fds:
            os.close(fd)
        return answer

    def _pipe(self) -> int:
        read, write = os.pipe()
        os.set_blocking(read, False)
        self._pipes[read] = b""
        return write

    def printed(self) -> str:
        """Return everything that was written to its streams."""
        for fd in self._pipes:
            with suppress(BlockingIOError):
                while data := os.read(fd, 1 << 16):
                    self._pipes[fd] += data
        return b"".join(self._pipes.values()).decode()

    def wait(self, number: int) -> dict[str, Any]:
        """Wait for the answer to a request."""
        self._fake.wait_for(lambda: self.answer_to(number) is not None)
        answer = self.answer_to(number)
        assert answer is not None
        return answer

    def leave(self) -> None:
        """End the connection."""
        self._stream.close()
        for fd in self._pipes:
            with suppress(OSError):
                os.close(fd)
        self._pipes.clear()
