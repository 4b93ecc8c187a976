"""Scripts for workers to run, terminals to run dsrun on, and looks at what runs."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import termios
import textwrap
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsrun.launcher.common.poll import ready

from ..support.limits import HANG
from .jobs import state

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from .hosts import Cluster

LOCAL: tuple[str, ...] = ("--launcher", "local")
"""dsrun's options for workers where it runs itself."""

OVER = b"<the command is over>"
"""What a test writes to a terminal behind all that a command has written."""

TRACEBACK = "Traceback (most recent call last)"

PREAMBLE = """\
import os, signal, sys, time
rank = int(os.environ["RANK"])

def wait_for_file(name):
    deadline = time.monotonic() + 600
    while not os.path.exists(name):
        if time.monotonic() > deadline:
            sys.exit(f"{name} never came")
        time.sleep(0.01)

"""


def script(folder: Path, text: str, name: str = "work.py") -> str:
    """Write a worker's script, which has `rank` and `wait_for_file` at hand; returns its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PREAMBLE + textwrap.dedent(text))
    return str(path)


def lines_by_rank(shown: str) -> dict[int, list[str]]:
    """The lines that were printed with the prefix "{rank}| ", those in pieces joined."""
    found: dict[int, list[str]] = {}
    for rank, bar, text in re.findall(r"(?m)^(\d+)([|+]) (.*)$", shown):
        lines = found.setdefault(int(rank), [])
        if bar == "|":
            lines.append(text)
        else:
            lines[-1] += text
    return found


def hostfile(cluster: Cluster, folder: Path, *slots: int) -> tuple[str, str]:
    """Write a hostfile of the first hosts, so many slots each; returns the options for dsrun."""
    path = folder / "hosts"
    named = zip(cluster.names, slots, strict=False)
    path.write_text("".join(f"{name} slots={count}\n" for name, count in named))
    return "--hostfile", str(path)


def peak_memory(pid: int) -> int:
    """The most bytes that a process has had in memory (`VmHWM` of proc(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def written(pid: int) -> int:
    """How many bytes a process has written so far, to whatever it was (`wchar` of proc(5))."""
    return int(Path(f"/proc/{pid}/io").read_text().partition("wchar:")[2].split()[0])


def log_file(folder: Path, rank: int, kind: str = "out") -> Path:
    """The log of a rank in the `--log_dir` of the one job that has used it."""
    (found,) = folder.glob(f"*/rank-{rank:04d}.{kind}")
    return found


LOOKS = 8
"""How often in a row a process is seen to sleep that waits for its reader."""


def has_stopped_writing(pid: int) -> bool:
    """Whether a process that writes all the time has come to wait for its reader.

    One that only waits for a CPU is not asleep.
    """
    before = written(pid)
    for _ in range(LOOKS):
        time.sleep(0.05)
        if written(pid) != before or state(pid) != "S":
            return False
    return True


def node_launchers(cluster: Cluster) -> list[int]:
    """The pids of all node launchers and their guards."""
    return [p.pid for p in cluster.processes() if p.argv[1:4] == ("-E", "-S", "-c")]


def workers(cluster: Cluster, name: str) -> list[int]:
    """The pids of the workers that run the script of this name."""
    return [p.pid for p in cluster.processes() if p.job and any(name in word for word in p.argv)]


@contextmanager
def open_pipe() -> Iterator[tuple[int, int]]:
    """A pipe, both ends open until the block ends: (read end, write end)."""
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


class Terminal:
    """A terminal to give to a command; `read_until` and `rest` are what a person would be shown.

    Attributes:
        slave: for the command.
    """

    def __init__(self, columns: int = 80) -> None:
        self._master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("4H", 25, columns, 0, 0))
        self._shown = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        for fd in (self._master, self.slave):
            os.close(fd)

    @property
    def outputs(self) -> dict[str, Any]:
        """Options for Popen: both outputs go here."""
        return {"stdout": self.slave, "stderr": self.slave}

    def read_until(self, text: bytes, timeout: float = HANG) -> bytes:
        """All that was shown so far, once `text` is among it.

        Raises:
            AssertionError: it is not, after so many seconds.
        """
        deadline = time.monotonic() + timeout
        while text not in self._shown:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} within {timeout:g} s, but {self._shown!r}"
            self._read(left)
        return self._shown

    def read_next(self, pattern: bytes, timeout: float = HANG) -> bytes:
        """The first group of the first match in what is shown from now on.

        Raises:
            AssertionError: there is none within so many seconds.
        """
        start = len(self._shown)
        deadline = time.monotonic() + timeout
        while not (found := re.search(pattern, self._shown[start:])):
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} within {timeout:g} s, but {self._shown[start:]!r}"
            self._read(left)
        return found[1]

    def read_to_end(self, process: subprocess.Popen[Any]) -> bytes:
        """All that was ever shown, read until this process has ended."""
        while process.poll() is None:
            self._read(0.05)
        return self.rest()

    def rest(self) -> bytes:
        """All that was ever shown; for when the command is over."""
        while self._read(0.0):
            pass
        os.write(self.slave, OVER)
        return self.read_until(OVER).replace(OVER, b"")

    def _read(self, seconds: float) -> bytes:
        if not ready([self._master], seconds):
            return b""
        block = os.read(self._master, 65536)
        self._shown += block
        return block


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """The process stands still inside the `with` block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
