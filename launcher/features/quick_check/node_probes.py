"""PROBE: finds the addresses of another node that can be reached, without blocking.

The loop must keep running, as the runner counts this node's silence. A name service may take
minutes to answer and cannot be asked without blocking, and threads are ruled out where workers are
forked. So each name is resolved by a forked child.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import suppress
from functools import partial

from ...common import system
from ...common.errors import reason
from ...common.text import read_json
from ...node.machine import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn, TypeAlias

    from ...common.loop import Loop

    Target: TypeAlias = tuple[Any, ...]
    Resolved: TypeAlias = Callable[[str, int, Target], None]

SECONDS = 5.0
"""Seconds for all addresses of a probe to answer."""

NO_ANSWER = "no answer"
_KILLED = json.dumps(["does not resolve (the lookup was killed)", 0, []])
UNRESOLVED = "does not resolve (the name service does not answer)"


class AddressProbe:
    """One attempt to connect to a port at several addresses at once.

    Attributes:
        verdicts: for each address "" if it has answered, else the reason.
        done: all verdicts are final.
    """

    def __init__(
        self, loop: Loop, candidates: Sequence[str], port: int, ended: Callable[[], None]
    ) -> None:
        """Prepare an attempt; `ended` is called once, when all verdicts are final."""
        self.verdicts = [NO_ANSWER] * len(candidates)
        self.done = False
        self._loop = loop
        self._candidates = candidates
        self._port = port
        self._ended = ended
        self._connecting: dict[int, socket.socket] = {}
        self._resolving: dict[int, Resolver] = {}
        self._timer = loop.call_later(SECONDS, self._finish)

    @property
    def pids(self) -> list[int]:
        """The children that resolve names."""
        return [one.pid for one in self._resolving.values()]

    def start(self) -> None:
        """Try all addresses."""
        for at, address in enumerate(self._candidates):
            self._try(at, address)
        self._finish_if_idle()

    def close(self) -> None:
        """End the attempt without a call of `ended`."""
        self.done = True
        self._timer.cancel()
        for one in self._connecting.values():
            self._loop.remove(one.fileno())
            one.close()
        for resolver in self._resolving.values():
            resolver.close()
        self._connecting, self._resolving = {}, {}

    def _try(self, at: int, address: str) -> None:
        try:
            family, target = numeric(address, self._port)
        except socket.gaierror:
            self._resolve(at, address)
        except UnicodeError:
            self.verdicts[at] = "does not resolve (not a valid host name)"
        else:
            self._connect(at, family, target)

    def _resolve(self, at: int, name: str) -> None:
        self.verdicts[at] = UNRESOLVED
        try:
            resolver = Resolver(self._loop, name, self._port, partial(self._resolved, at))
        except OSError as error:
            self.verdicts[at] = f"does not resolve ({reason(error)})"
        else:
            self._resolving[at] = resolver

    def _resolved(self, at: int, problem: str, family: int, target: Target) -> None:
        del self._resolving[at]
        self.verdicts[at] = problem
        if not problem:
            self._connect(at, family, target)
        self._finish_if_idle()

    def _connect(self, at: int, family: int, target: Target) -> None:
        self.verdicts[at] = NO_ANSWER
        try:
            one = system.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            self.verdicts[at] = reason(error)
            return
        try:
            one.connect(target)
        except BlockingIOError:
            self._connecting[at] = one
            self._loop.add_writer(one.fileno(), lambda: self._connected(at, one))
            return
        except OSError as error:
            self.verdicts[at] = reason(error)
        else:
            self.verdicts[at] = ""
        one.close()

    def _connected(self, at: int, one: socket.socket) -> None:
        number = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self.verdicts[at] = os.strerror(number).lower() if number else ""
        del self._connecting[at]
        self._loop.remove(one.fileno())
        one.close()
        self._finish_if_idle()

    def _finish_if_idle(self) -> None:
        if not self._connecting and not self._resolving:
            self._finish()

    def _finish(self) -> None:
        if not self.done:
            self.close()
            self._ended()


class Resolver:
    """A child that resolves one name."""

    def __init__(self, loop: Loop, name: str, port: int, resolved: Resolved) -> None:
        """Fork the child; `resolved` is called with a problem, or with family and socket address.

        Raises:
            OSError: there are too many processes or descriptors.
        """
        self._loop = loop
        self._resolved = resolved
        self._data = b""
        self._fd, theirs = system.pipe2(os.O_CLOEXEC)
        parent = system.getpid()
        try:
            self.pid = system.fork(lambda: _resolve(name, port, theirs, parent))
        except OSError:
            system.close(self._fd)
            system.close(theirs)
            raise
        system.close(theirs)
        system.set_blocking(self._fd, False)
        loop.add_reader(self._fd, self._read)

    def close(self) -> None:
        """End the child."""
        processes.send(self.pid, signal.SIGKILL)
        self._close()

    def _close(self) -> None:
        self._loop.remove(self._fd)
        system.close(self._fd)
        # At once: otherwise a group of workers takes it for one of its orphans.
        with suppress(ChildProcessError):
            system.waitpid(self.pid, 0)

    def _read(self) -> None:
        data = system.read(self._fd, 65536)
        self._data += data
        if not data:
            self._close()
            problem, family, target = read_json(self._data or _KILLED)
            self._resolved(problem, family, tuple(target))


def numeric(address: str, port: int) -> tuple[int, Target]:
    """Return the family and the socket address of a numeric address.

    Raises:
        gaierror: it is a name.
        UnicodeError: the address cannot be a name.
    """
    flags = socket.AI_NUMERICHOST
    info = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=flags)[0]
    return info[0], info[4]


def _resolve(name: str, port: int, answer: int, parent: int) -> NoReturn:
    """Write the addresses of a name, as JSON, and exit."""
    try:
        system.set_wakeup_fd(-1)  # the pipe is the parent's as well
        processes.die_with_parent(signal.SIGKILL)
        if system.getppid() == parent:
            system.write(answer, json.dumps(_resolution(name, port)).encode())
    finally:
        system.exit_now(0)


def _resolution(name: str, port: int) -> tuple[str, int, Target]:
    try:
        family, target = system.resolve(name, port)[0]
    except OSError as error:
        return f"does not resolve ({error.strerror})", 0, ()
    return "", family, target
