"""A node launcher for tests of the preloader's program: starts it, asks for forks, orders workers.

This process has to be a child subreaper, as a node launcher is.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import dsrun.launcher.features.preload
from dsrun.launcher.common.poll import ready
from dsrun.launcher.features.preload import node_messages as messages
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.workers.spawn import WorkerSpec, spawn

from .limits import HANG
from .specs import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROGRAM = Path(dsrun.launcher.features.preload.__file__).with_name("process.py")
COMMON = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
"""The variables of a preloader."""


class Ended(NamedTuple):
    """How a worker has ended; addresses of objects are left out of what it has printed."""

    status: int
    out: str
    err: str


class Worker(NamedTuple):
    """A process that was started as a worker, and our ends of its streams."""

    pid: int
    stdin: int
    stdout: int
    stderr: int

    def ends(self, feed: bytes = b"") -> Ended:
        """Write to its standard input, read its output and wait for its end."""
        with os.fdopen(self.stdin, "wb", buffering=0) as file, suppress(BrokenPipeError):
            file.write(feed)
        out, err = _read_all(self.stdout, self.stderr)
        _, status = os.waitpid(self.pid, 0)
        return Ended(os.waitstatus_to_exitcode(status), _plain(out), _plain(err))


def _plain(data: bytes) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", data.decode("utf-8", "backslashreplace"))


def _read_all(*fds: int) -> list[bytes]:
    texts, deadline = dict.fromkeys(fds, b""), time.monotonic() + HANG
    left = list(fds)
    while left:
        found = ready(left, deadline - time.monotonic())
        assert found, texts
        for fd in found:
            block = os.read(fd, 65536)
            texts[fd] += block
            if not block:
                left.remove(fd)
                os.close(fd)
    return [texts[fd] for fd in fds]


def cold(spec: WorkerSpec) -> Worker:
    """Start a worker as ever."""
    process = spawn(spec)
    fds = (process.stdin, process.stdout, process.stderr)
    for fd in fds:
        os.set_blocking(fd, True)
    return Worker(process.pid, *fds)


class Fork(NamedTuple):
    """A fork that waits for its order."""

    pid: int
    line: socket.socket

    def becomes(
        self,
        spec: WorkerSpec,
        memory: tuple[str, Sequence[int]] = ("", ()),
        fds: Sequence[int] | None = None,
    ) -> Worker:
        """Give it its order; `fds` are descriptors to send in place of those of `spec`."""
        if spec.keep_stdin:
            given, stdin = os.pipe()
        else:
            given, stdin = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
        (stdout, out), (stderr, err) = os.pipe(), os.pipe()
        messages.send(
            self.line, order(spec, memory), [given, out, err, *(spec.fds if fds is None else fds)]
        )
        for fd in (given, out, err):
            os.close(fd)
        return Worker(self.pid, stdin, stdout, stderr)

    def answer(self) -> str | None:
        """Return what it says before its program runs: why it starts cold; None if nothing."""
        message = messages.receive(self.line)
        if message is not None:
            assert messages.receive(self.line) is None
            return str(message[0]["cold"])
        return None


def order(
    spec: WorkerSpec, memory: tuple[str, Sequence[int]] = ("", ()), path: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the order of a worker."""
    return {
        "argv": [_text(word) for word in spec.argv],
        "env": {_text(name): _text(value) for name, value in spec.env.items()},
        "workdir": _text(spec.workdir),
        "cpus": spec.cpus,
        "memory": memory,
        "path": path,
        "hook": _text(spec.hook),
        "fds": spec.fds,
    }


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


class Preloader(NamedTuple):
    """A preloader's process that has imported.

    Attributes:
        report: its answer.
    """

    process: Worker
    line: socket.socket
    report: dict[str, Any]

    def forks(self, count: int) -> list[Fork]:
        """Ask for forks; returns them once they wait for their orders."""
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count)]
        messages.send(self.line, {"fork": count}, [theirs.fileno() for _, theirs in pairs])
        forks = []
        for ours, theirs in pairs:
            theirs.close()
            ours.settimeout(HANG)
            message = messages.receive(ours)
            assert message is not None
            forks.append(Fork(message[0]["pid"], ours))
        return forks

    def run(self, spec: WorkerSpec, **more: Any) -> Ended:
        """Fork a worker, and wait for its end."""
        (fork,) = self.forks(1)
        with fork.line:
            worker = fork.becomes(spec, **more)
            assert fork.answer() in {None, ""}
        return worker.ends()


@contextmanager
def preloader(
    modules: Sequence[str],
    workdir: Path,
    folder: Path | None = None,
    env: Mapping[str, str] = COMMON,
    python: bytes = PYTHON,
    status: int = 0,
) -> Iterator[Preloader]:
    """Start a preloader, and end it after the block; it must have ended with this status then.

    If it ends before it has answered, its report is empty.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        ours.settimeout(HANG)
        with theirs:
            variables = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
            argv = [python, b"-u", os.fsencode(PROGRAM)]
            process = cold(
                WorkerSpec(0, argv, variables, os.fsencode(workdir), stdin=theirs.fileno())
            )
        try:
            messages.send(ours, {"modules": [*modules], "folders": [str(folder)] if folder else []})
            message = messages.receive(ours)
            yield Preloader(process, ours, message[0] if message else {})
        except BaseException:
            processes.send(process.pid, signal.SIGKILL)
            print(process.ends())
            raise
    ended = process.ends()
    assert ended.status == status, ended


def await_orphans() -> None:
    """Wait for the ends of what workers have left: helpers of multiprocessing end after them."""
    while processes.children():
        os.waitpid(-1, 0)
