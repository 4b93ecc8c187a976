"""How a world starts node launchers: its ssh or its MPI launcher, as a backend of the runner."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from dsrun.launcher.backends import causes
from dsrun.launcher.backends.events import EngineEnded, EngineOutput, SessionEnded, SessionStarted
from dsrun.launcher.backends.stdio import SessionStream
from dsrun.launcher.common import system
from dsrun.launcher.common.errors import LOST
from dsrun.launcher.node import main

from .at_end import AtEnd
from .engine import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.backends.base import DialBack, StartCommand
    from dsrun.launcher.backends.events import Emit
    from dsrun.launcher.common.loop import Loop
    from dsrun.launcher.specs.plan import Node

    from .kernel import Host, Kernel, Process
    from .kernel.descriptors import Description
    from .scenario import HostSpec

BANNER = b"Welcome to this host.\nLast login: never\n"

SLOW = 10.0
"""Seconds that a slow sshd takes."""

REFUSED = "connection refused: no sshd on that port"

FULL = "the connection was closed: sshd cannot fork"


class _Session(NamedTuple):
    """A session: the how-manieth start of node launchers it is of, and of which node."""

    start: int
    rank: int


class Remote:
    """Starts node launchers on the hosts of a world, over links.

    Attributes:
        sessions: the guards that were started, by host, oldest first.
    """

    transport: Literal["stdio", "dial"] = "stdio"

    def __init__(
        self, kernel: Kernel, hosts: Sequence[HostSpec], login: Host, engine: str = ""
    ) -> None:
        """Start them over ssh, or by an engine, which is `strict` or `tolerant`.

        Later ones, in place of those that are lost, are started one by one.
        """
        self.sessions: dict[str, list[Process]] = {}
        self._kernel = kernel
        self._hosts = {one.name: one for one in hosts}
        self._login = login
        self._runner: Process | None = None
        self._ends = -1
        self._emits: list[Emit] = []
        self._engine: Engine | None = None
        if engine:
            tolerant = engine == "tolerant"
            self._engine = Engine(kernel, login, self._tell_of_engine, tolerant=tolerant)

    def problem(self, nodes: Sequence[Node]) -> str:
        """Return "": it can start all nodes."""
        del nodes
        return ""

    def commands(self, nodes: Sequence[Node], dial: DialBack | None) -> list[StartCommand]:
        """Return no command: nothing is executed."""
        del nodes, dial
        return []

    def prepare(self, nodes: Sequence[Node]) -> None:
        """Prepare nothing."""

    def close(self) -> None:
        """End the engine; a node launcher ends when its line closes."""
        if self._engine is not None and self._emits:
            self._engine.close()
            with suppress(BlockingIOError):
                self._hear(self._heard)

    def start(self, nodes: Sequence[Node], loop: Loop, emit: Emit, dial: DialBack | None) -> None:
        """Start the node launcher of every node."""
        del dial
        if self._runner is None:
            self._open(loop)
        start = len(self._emits)
        self._emits.append(emit)
        if self._engine is not None and start == 0:
            self._engine.begin(len(nodes))
        for node in nodes:
            host = self._kernel.hosts[node.host.name]
            spec = self._hosts[host.name]
            wait = SLOW if spec.start == "slow" else 0.01
            self._kernel.at(wait, partial(self._connect, _Session(start, node.rank), host, spec))

    def _open(self, loop: Loop) -> None:
        """Open the pipe through which the world tells what becomes of sessions."""
        self._runner = self._kernel.process
        read, write = system.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._heard, self._ends = read, write
        loop.add_reader(read, lambda: self._hear(read))

    def _hear(self, fd: int) -> None:
        for line in system.read(fd, 1 << 16).splitlines():
            told = json.loads(line)
            emit = self._emits[told["start"]]
            if "engine" in told:
                emit(EngineEnded(told["engine"], LOST, told["killed"]))
            elif "output" in told:
                emit(EngineOutput(told["output"]))
            elif "cause" in told:
                emit(SessionEnded(told["rank"], told["cause"]))
            else:
                stream = SessionStream(told["fd"], system.dup(told["fd"]))
                emit(SessionStarted(told["rank"], stream))

    def _tell(self, session: _Session, **event: object) -> None:
        """Tell the runner, as the world, if it is there."""
        runner = self._runner
        if runner is not None and runner.alive and not runner.exiting:
            line = json.dumps({**session._asdict(), **event})
            runner.get(self._ends).try_write(line.encode() + b"\n")

    def _tell_of_engine(self, how: str, killed: bool) -> None:
        """Tell how the engine has ended."""
        self._tell(_Session(0, 0), engine=how, killed=killed)

    def loses_power(self, host: Host) -> None:
        """Let the engine miss a host that is about to lose its power."""
        if self._engine is not None:
            self._engine.loses_power(host)

    def _engine_of(self, session: _Session) -> Engine | None:
        """Return the engine, if this session is of its."""
        return self._engine if session.start == 0 else None

    def _fail(self, session: _Session, host: Host, cause: str) -> None:
        """Tell that a node launcher cannot be started; an engine names the host first."""
        engine = self._engine_of(session)
        if engine is not None:
            self._tell(session, output=f"mpirun: {host.name}: {cause}")
        self._tell(session, cause=cause)
        if engine is not None:
            engine.has_ended(None, 1)

    def _connect(self, session: _Session, host: Host, spec: HostSpec) -> None:
        """Log in, as the world, and start a node launcher."""
        runner, engine = self._runner, self._engine_of(session)
        if engine is not None and not engine.starts:
            return
        if runner is None or not runner.alive or runner.exiting:
            if engine is not None:
                engine.has_ended(None, 1)  # the node launcher that it starts dials in vain
            return
        network = self._kernel.network
        if network.is_cut(self._login, host) or network.is_cut(host, self._login) or not host.on:
            self._kernel.at(10.0, partial(self._fail, session, host, "no answer: timed out"))
            return
        if spec.start == "refused":
            self._happens(host.name, fault="refuse", target=host.name)
            self._fail(session, host, REFUSED)
            return
        ours, theirs = self._kernel.link(self._login, host)
        errors, stderr = self._kernel.network.channel(host, self._login)
        fd = runner.install(ours)
        if spec.start == "chatty":
            theirs.try_write(BANNER)
        try:
            guard = self._begin(host, {0: theirs, 1: theirs, 2: errors})
        except OSError:
            runner.remove(fd)
            self._fail(session, host, FULL)
            return
        self.sessions.setdefault(host.name, []).append(guard)
        if engine is not None:
            engine.has_started(guard, host)
        at_end = AtEnd(partial(self._ended, session, host, guard, stderr))
        guard.watchers.append(cast("Any", at_end))
        if spec.start == "killed" and len(self.sessions[host.name]) == 1:
            self._kernel.at(0.05, partial(self._kill, host, guard))
        self._tell(session, fd=fd)

    def _begin(self, host: Host, fds: dict[int, Description]) -> Process:
        """Start a guard.

        Raises:
            OSError: the host is out of processes.
        """
        return self._kernel.spawn(
            host,
            lambda: main.main(["--stdio"]),
            argv=[b"python", b"-c", b"dsrun", b"--stdio"],
            env={b"PATH": b"/usr/bin", b"HOME": b"/root"},
            fds=fds,
            role="guard",
            name="guard",
        )

    def _kill(self, host: Host, guard: Process) -> None:
        if guard.alive:
            self._happens(host.name, fault="kill", target="guard")
            host.kill(guard.pid)

    def _happens(self, host: str, **fields: object) -> None:
        """Record a fault."""
        self._kernel.tell("fault", host, fields)

    def _ended(self, session: _Session, host: Host, guard: Process, stderr: object) -> None:
        """Tell the runner that a session has ended, if the network lets it know, and why.

        That may come before the end of the control line: pdsh has a connection of its own.
        """
        pause = 0.01 + self._kernel.network.delay(host, self._login)
        self._kernel.at(pause, partial(self._tell_end, session, host, guard, stderr))

    def _tell_end(self, session: _Session, host: Host, guard: Process, stderr: object) -> None:
        network = self._kernel.network
        if network.is_cut(host, self._login):
            self._kernel.at(1.0, partial(self._tell_end, session, host, guard, stderr))
            return
        errors = stderr.incoming.unread.decode("utf-8", "replace")  # type: ignore[attr-defined]
        code = os.waitstatus_to_exitcode(guard.status or 0)
        engine = self._engine_of(session)
        if engine is not None:
            engine.has_ended(guard, code)
        else:
            self._tell(session, cause=causes.explain_end(code, errors))
