"""A preloader as a test plays it: its processes are real and only sleep; the test says the rest."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsrun.launcher.features.preload import node_messages as messages
from dsrun.launcher.features.preload.node_workers import PreloadRequest
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec, spawn

from .limits import wait_for
from .specs import ENV

if TYPE_CHECKING:
    from collections.abc import Iterator

SLEEP = [b"/bin/sleep", b"600"]

REPORT: dict[str, Any] = {
    "modules": ["m"],
    "missing": {},
    "failed": {},
    "unsafe": "",
    "read": {},
    "prefixes": [],
    "cpus": None,
    "files": {},
    "folders": {},
}

REQUEST = PreloadRequest(b"/python", ("m",), ("/scripts",), b"/", ENV)


class FakeFork:
    """One fork: its process is there, once it says so."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.pid = 0

    def waits(self, pid: int = 0) -> None:
        """Start the process, and tell its pid, or this one."""
        self.pid = pid or os.posix_spawn(SLEEP[0], SLEEP, {})
        self.says(pid=self.pid)

    def says(self, **message: object) -> None:
        messages.send(self.line, message)

    def order(self) -> tuple[dict[str, Any], list[int]]:
        """The order that has come, with its descriptors."""
        received = messages.receive(self.line)
        assert received is not None
        return received


class FakePreloader:
    """The process of a preloader, from the side of the process.

    Attributes:
        forks: what it was asked for.
    """

    def __init__(self) -> None:
        self._theirs, self.line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._theirs.setblocking(False)
        self.line.setblocking(False)
        self.pid = 0
        self.forks: list[FakeFork] = []

    def start(self, _request: PreloadRequest) -> tuple[Process, socket.socket]:
        """Start it, as `preloader.started` does; it has executed its program by then."""
        process = spawn(WorkerSpec(0, SLEEP, ENV, b"/"))
        self.pid = process.pid
        command = Path(f"/proc/{self.pid}/cmdline")
        wait_for(lambda: command.read_bytes().startswith(SLEEP[0]), "the program")
        return process, self._theirs

    def imports(self, **report: object) -> None:
        """Report what was imported."""
        messages.send(self.line, REPORT | report)

    def asked(self) -> int:
        """Take the requests for forks; returns how many there are in all."""
        for message, fds in self._requests():
            assert message == {"fork": len(fds)}
            self.forks += [FakeFork(socket.socket(fileno=fd)) for fd in fds]
        return len(self.forks)

    def _requests(self) -> Iterator[tuple[dict[str, Any], list[int]]]:
        while True:
            try:
                request = messages.receive(self.line)
            except BlockingIOError:
                return
            if request is None:
                return
            yield request

    def close(self) -> None:
        """Close its sockets."""
        for one in (self._theirs, self.line, *(fork.line for fork in self.forks)):
            one.close()
