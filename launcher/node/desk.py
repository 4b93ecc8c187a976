"""The desk: where torch's agent and its stand-ins hand in lines to the node launcher.

It is a socket that the agent has as its standard input, and its children after it: nobody else can
come, and nothing of it has a name in the file system.
"""

from __future__ import annotations

import json
import os
import signal
import socket

from .. import loop as loops
from ..values import NamedTuple
from . import kernel
from .workers import spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .workers import Process, Spec

LIMIT = 65536


class Visits(NamedTuple):
    """What the desk tells its owner; each is called from the loop.

    Attributes:
        joined: the agent waits for a round; its store's port.
        manned: every worker of the round has been asked for.
        stopped: the agent wants the workers to stop, with this signal.
        left: the agent has ended, and whether its workers had ended well.
    """

    joined: Callable[[int], None]
    manned: Callable[[], None]
    stopped: Callable[[int], None]
    left: Callable[[bool], None]


class Desk:
    """One agent and its stand-ins.

    Attributes:
        pid: the agent's.
    """

    def __init__(self, loop: loops.Loop, agent: Callable[[int], Spec], visits: Visits) -> None:
        """Start the agent; `agent` is given the descriptor of its standard input.

        Raises:
            SpawnFailed: it cannot be started.
        """
        self._loop = loop
        self._visits = visits
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._agent: Process = spawn(agent(theirs.fileno()))
        self.pid = self._agent.pid
        os.close(self._agent.stdin)
        self._line: socket.socket | None = None
        self._rest = b""
        self._words = b""
        self._standins: dict[int, socket.socket] = {}
        self._expected = 0
        self._well = False
        loop.watch(self._ours.fileno(), loops.READ, self._visited)
        for fd in (self._agent.stdout, self._agent.stderr):
            loop.watch(fd, loops.READ, lambda fd=fd: self._heard(fd))  # type: ignore[misc]

    @property
    def words(self) -> str:
        """The last line that the agent has written."""
        lines = self._words.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def form(self, place: dict[str, object], workers: int) -> None:
        """Tell the agent its place in a round, which so many workers of this node are in."""
        self._standins = {}
        self._expected = workers
        self._tell({"round": place})

    def change(self) -> None:
        """Have the agent leave its round."""
        self._tell({"change": True})

    def ended(self, local: int, code: int) -> None:
        """Have a stand-in end as its worker did."""
        line = self._standins.pop(local, None)
        if line is not None:
            self._forget(line)
            with line:
                _send(line, code.to_bytes(4, "big", signed=True))

    def close(self) -> None:
        """End the agent and the stand-ins, which is the end of everything that it has decided."""
        kernel.send(self.pid, signal.SIGKILL)
        for line in (self._ours, *self._standins.values(), *([self._line] if self._line else [])):
            self._forget(line)
            line.close()
        for fd in (self._agent.stdout, self._agent.stderr):
            self._loop.unwatch(fd)
        self._standins, self._line = {}, None

    def _tell(self, message: dict[str, object]) -> None:
        if self._line is not None:
            _send(self._line, json.dumps(message).encode() + b"\n")

    def _heard(self, fd: int) -> None:
        try:
            data = os.read(fd, LIMIT)
        except BlockingIOError:
            return
        if not data:
            self._loop.unwatch(fd)
        self._words = (self._words + data)[-4096:]

    def _visited(self) -> None:
        data, fds, _, _ = socket.recv_fds(self._ours, LIMIT, 1)
        if not fds:
            self._forget(self._ours)
            return
        line = socket.socket(fileno=fds[0])
        line.setblocking(False)
        said = json.loads(data)
        if "agent" in said:
            self._line = line
            self._loop.watch(line.fileno(), loops.READ, self._agent_says)
        else:
            self._man(int(said["LOCAL_RANK"]), line)

    def _man(self, local: int, line: socket.socket) -> None:
        self._standins[local] = line
        self._loop.watch(line.fileno(), loops.READ, lambda: self._standin_says(local, line))
        if len(self._standins) == self._expected:
            self._visits.manned()

    def _standin_says(self, local: int, line: socket.socket) -> None:
        """A signal that it got; its end means that torch has killed it."""
        data = line.recv(64)
        if not data:
            self._forget(line)
        if self._standins.get(local) is not line:
            return  # of a former round
        if not data:
            self._standins.pop(local)
        self._visits.stopped(data[-1] if data else signal.SIGKILL)

    def _agent_says(self) -> None:
        assert self._line is not None
        data = self._line.recv(LIMIT)
        if not data:
            self._forget(self._line)
            self._visits.left(self._well)
            return
        *whole, self._rest = (self._rest + data).split(b"\n")
        for said in map(json.loads, whole):
            if "join" in said:
                self._visits.joined(int(said["join"]))
            self._well = bool(said.get("ended"))

    def _forget(self, line: socket.socket) -> None:
        if line.fileno() >= 0:
            self._loop.unwatch(line.fileno())


def _send(line: socket.socket, data: bytes) -> None:
    """Send a few bytes, if there is anybody to read them."""
    try:
        line.send(data)
    except OSError:
        return
