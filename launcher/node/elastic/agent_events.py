"""The desk: where torch's agent and its stand-ins hand in lines to the node launcher.

It is a socket that the agent has as its standard input, and its children after it: nobody else can
come, and nothing of it has a name in the file system.
"""

from __future__ import annotations

import json
import os
import signal
import socket

from ...common import loop as loops
from ...common.values import NamedTuple
from ...control.messages import Left
from .. import processes
from ..workers.spawn import spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..workers.spawn import Process, Spec

LIMIT = 65536

UNSAID = Left("?")
"""Until the agent says why it ends."""


class Visits(NamedTuple):
    """What the desk tells its owner; each is called from the loop.

    Attributes:
        joined: the agent waits for a round; its store's port.
        manned: every worker of the round has been asked for; what is said of each, by local rank.
        stopped: the agent wants the workers to stop, with this signal.
        left: the agent has ended; why, or None if its workers had ended well.
    """

    joined: Callable[[int], None]
    manned: Callable[[list[dict[str, str]]], None]
    stopped: Callable[[int], None]
    left: Callable[[Left | None], None]


class Desk:
    """One agent and its stand-ins.

    Attributes:
        pid: the agent's.
    """

    def __init__(
        self, loop: loops.Loop, agent: Callable[[int], Spec], visits: Visits, workers: int
    ) -> None:
        """Start the agent; `agent` is given the descriptor of its standard input.

        Args:
            loop: what is said here is heard on it.
            agent: what to execute.
            visits: who is told.
            workers: how many the agent asks for in each round.

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
        self._said: dict[int, dict[str, str]] = {}
        self._workers = workers
        self._left: Left | None = UNSAID
        loop.watch(self._ours.fileno(), loops.READ, self._visited)
        for fd in (self._agent.stdout, self._agent.stderr):
            loop.watch(fd, loops.READ, lambda fd=fd: self._heard(fd))  # type: ignore[misc]

    def form(self, place: dict[str, object]) -> None:
        """Tell the agent its place in a round."""
        self._standins, self._said = {}, {}
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
        processes.send(self.pid, signal.SIGKILL)
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
            if self._line is None:
                self._visits.left(self._end())
            return
        line = socket.socket(fileno=fds[0])
        line.setblocking(False)
        said = json.loads(data)
        if "agent" in said:
            self._line = line
            self._loop.watch(line.fileno(), loops.READ, self._agent_says)
        else:
            self._man(int(said["LOCAL_RANK"]), line, said)

    def _man(self, local: int, line: socket.socket, said: dict[str, str]) -> None:
        self._standins[local], self._said[local] = line, said
        self._loop.watch(line.fileno(), loops.READ, lambda: self._standin_says(local, line))
        if len(self._said) == self._workers:
            whole, self._said = self._said, {}
            self._visits.manned([whole[local] for local in sorted(whole)])

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
            self._visits.left(self._end())
            return
        *whole, self._rest = (self._rest + data).split(b"\n")
        for said in map(json.loads, whole):
            if "join" in said:
                self._visits.joined(int(said["join"]))
            elif "left" in said:
                self._left = Left(**said["left"]) if said["left"] else None

    def _end(self) -> Left | None:
        """Return why the agent has ended, in its last words where it has not said it."""
        if self._left is UNSAID:
            words, unusable = self._last_words(), self._line is None
            if unusable and words:
                return Left(words, unusable)  # what it lacks here
            return Left(f"torch's agent ended: {words or 'killed'}", unusable)
        return self._left

    def _last_words(self) -> str:
        """Return the last line that the agent has written."""
        for fd in (self._agent.stdout, self._agent.stderr):
            self._heard(fd)
        lines = self._words.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _forget(self, line: socket.socket) -> None:
        if line.fileno() >= 0:
            self._loop.unwatch(line.fileno())


def _send(line: socket.socket, data: bytes) -> None:
    """Send a few bytes, if there is anybody to read them."""
    try:
        line.send(data)
    except OSError:
        return
