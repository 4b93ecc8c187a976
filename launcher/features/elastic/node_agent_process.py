"""The process of torch's agent: its command, and its and its shims' messages.

The agent's standard input is a socket. The agent, and every shim that it starts instead of a
worker, sends one end of a new connection over it. So no other process can connect, and nothing has
a name in the file system.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import suppress

from ...common import loop as loops
from ...common import system
from ...common.text import read_json
from ...control.round_messages import AgentFailure
from ...node.machine import processes
from ...node.workers.spawn import WorkerSpec, spawn
from ...specs import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...control.messages import NodeJob, Start
    from ...node.workers.prepare import NodeSetup
    from ...node.workers.spawn import Process
    from .node_rounds_state import AgentListener

BOOT = (
    b"import sys; sys.path[:] = [p for p in sys.path if p]; del sys.argv[0];"
    b"import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
)
"""Runs a file without its own folder and the current one on `sys.path`."""

INTERVAL = 0.05
"""Seconds between two checks of torch's agent on its workers; it can only poll."""

BARRIER = 300.0
"""Seconds for which an agent that has finished waits for the others: torch's own default."""

_FOLDER = os.path.dirname(__file__)


def agent_command(setup: NodeSetup, start: Start, stdin: int) -> WorkerSpec:
    """Return the command of torch's agent; its standard input is the socket to the launcher."""
    task = setup.task
    env = environment.placed({**setup.base, **task.env}, task.workdir)
    if task.rendezvous is None:
        # Nodes may have different numbers of workers.
        env["TORCH_ELASTIC_WORKER_IDENTICAL"] = "0"
    wire = environment.from_wire
    program = os.fsencode(os.path.join(_FOLDER, "agent.py"))
    settings = json.dumps(_settings(task, len(start.slots))).encode()
    return WorkerSpec(
        rank=start.first_rank,
        argv=[setup.python, b"-c", BOOT, program, settings],
        env={wire(name): wire(value) for name, value in env.items()},
        workdir=setup.workdir,
        stdin=stdin,
    )


def _settings(task: NodeJob, workers: int) -> dict[str, object]:
    # The JSON list of a rendezvous becomes an object for the agent.
    rendezvous = task.rendezvous._asdict() if task.rendezvous is not None else None
    return {
        "role": task.workers.role,
        "workers": workers,
        "job": task.job_id,
        "shim": [sys.executable, "-E", "-S", os.path.join(_FOLDER, "shim.py")],
        "interval": INTERVAL,
        "barrier": BARRIER,
        "rendezvous": rendezvous,
        "logs": task.output.logs_specs,
    }


LIMIT = 65536
"""Bytes of one message, at most."""

KEPT = 4096
"""Number of the agent's last bytes of output that are kept."""

NO_REASON = AgentFailure("?")
"""The reason until the agent reports one."""


class AgentProcess:
    """One agent and its shims.

    Attributes:
        pid: the agent's.
    """

    def __init__(
        self,
        loop: loops.Loop,
        agent: Callable[[int], WorkerSpec],
        listener: AgentListener,
        workers: int,
    ) -> None:
        """Start the agent.

        Args:
            loop: reads the agent's connections.
            agent: returns the command, given the descriptor of the agent's standard input.
            listener: receives the agent's decisions.
            workers: the number of workers that the agent requests in each round.

        Raises:
            SpawnFailed: the agent cannot be started.
        """
        self._loop = loop
        self._listener = listener
        self._workers = workers
        self._entry, theirs = system.socketpair(socket.SOCK_SEQPACKET)
        with theirs:
            self._agent = self._spawned(agent(theirs.fileno()))
        self.pid = self._agent.pid
        system.close(self._agent.stdin)
        self._outputs = [self._agent.stdout, self._agent.stderr]
        self._printed = b""
        self._line: socket.socket | None = None
        self._rest = b""
        self._open: dict[socket.socket, None] = {self._entry: None}
        self._shims: dict[int, socket.socket] = {}
        self._requested: dict[int, dict[str, str]] = {}
        self._failure: AgentFailure | None = NO_REASON
        loop.add_reader(self._entry.fileno(), self._accept)
        for fd in self._outputs:
            loop.add_reader(fd, lambda fd=fd: self._read_output(fd))  # type: ignore[misc]

    def _spawned(self, agent: WorkerSpec) -> Process:
        try:
            return spawn(agent)
        except BaseException:
            self._entry.close()
            raise

    def form(self, place: dict[str, object]) -> None:
        """Send the agent its place in a round."""
        self._shims, self._requested = {}, {}
        self._tell({"round": place})

    def change(self) -> None:
        """Tell the agent to leave its round."""
        self._tell({"change": True})

    def ended(self, local: int, code: int) -> None:
        """End the shim of a worker in the same way as the worker."""
        line = self._shims.pop(local, None)
        if line is not None:
            _send(line, code.to_bytes(4, "big", signed=True))
            self._close(line)

    def close(self) -> None:
        """End the agent and its shims."""
        processes.send(self.pid, signal.SIGKILL)
        for line in tuple(self._open):
            self._close(line)
        while self._outputs:
            fd = self._outputs.pop()
            self._loop.remove(fd)
            system.close(fd)
        self._shims, self._line = {}, None

    def _tell(self, message: dict[str, object]) -> None:
        if self._line is not None:
            _send(self._line, json.dumps(message).encode() + b"\n")

    # -- new lines --------------------------------------------------------------------------

    def _accept(self) -> None:
        data, fds, _, _ = system.recv_fds(self._entry, LIMIT, 1)
        if not fds:
            self._close(self._entry)
            if self._line is None:
                self._finish()
            return
        line = system.socket(fileno=fds[0])
        line.setblocking(False)
        try:
            message = read_json(data)
            local = -1 if "agent" in message else int(message["LOCAL_RANK"])
        except (ValueError, KeyError, TypeError):
            line.close()  # any code in the agent's process may write here
            return
        self._open[line] = None
        if local < 0:
            self._line = line
            self._loop.add_reader(line.fileno(), lambda: self._read_agent(line))
        else:
            self._add_shim(local, line, message)

    def _add_shim(self, local: int, line: socket.socket, environment: dict[str, str]) -> None:
        self._shims[local], self._requested[local] = line, environment
        self._loop.add_reader(line.fileno(), lambda: self._read_shim(local, line))
        if len(self._requested) == self._workers:
            whole, self._requested = self._requested, {}
            self._listener.workers_requested([whole[local] for local in sorted(whole)])

    # -- messages ----------------------------------------------------------------------------

    def _read_shim(self, local: int, line: socket.socket) -> None:
        """Read the signals that a shim received; the end of data means that torch killed it."""
        data = _received(line, 64)
        of_this_round = self._shims.get(local) is line
        if not data:
            self._close(line)
        if of_this_round:
            if not data:
                self._shims.pop(local)
            self._listener.stop_requested(data[-1] if data else signal.SIGKILL)

    def _read_agent(self, line: socket.socket) -> None:
        data = _received(line, LIMIT)
        if not data:
            self._close(line)
            self._finish()
            return
        *whole, self._rest = (self._rest + data).split(b"\n")
        for one in whole:
            with suppress(ValueError, TypeError):  # the user's code runs there, too
                self._handle(read_json(one))

    def _handle(self, message: dict[str, Any]) -> None:
        if "join" in message:
            port = int(message["join"])
            self._listener.agent_joined(port, port)
        elif "ended" in message:
            failure = message["ended"]
            self._failure = AgentFailure(**failure) if failure else None

    def _read_output(self, fd: int) -> None:
        try:
            data = system.read(fd, LIMIT)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove(fd)
        self._printed = (self._printed + data)[-KEPT:]

    # -- its end ----------------------------------------------------------------------------

    def _finish(self) -> None:
        """Report why the agent has ended: without its own reason, its last line of output."""
        failure = self._failure
        if failure is NO_REASON:
            printed, unusable = self._last_line(), self._line is None
            if unusable and printed:
                failure = AgentFailure(printed, unusable)  # text of a missing requirement
            else:
                text = f"torch's agent exited: {printed or 'killed'}"
                failure = AgentFailure(text, unusable)
        self._listener.agent_ended(failure)

    def _last_line(self) -> str:
        for fd in self._outputs:
            self._read_output(fd)
        lines = self._printed.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _close(self, line: socket.socket) -> None:
        if line in self._open:
            del self._open[line]
            self._loop.remove(line.fileno())
            line.close()


def _send(line: socket.socket, data: bytes) -> None:
    try:
        line.send(data)
    except OSError:
        return


def _received(line: socket.socket, size: int) -> bytes:
    try:
        return line.recv(size)
    except OSError:
        return b""  # the other process died with unread data
