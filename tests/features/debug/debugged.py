"""Workers that are debugged, without dsrun around them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control.messages import NodeJob
from dsrun.launcher.features.debug import node_sockets as sockets
from dsrun.launcher.node.machine.processes import die_with_parent
from dsrun.launcher.node.workers.spawn import StartingWorkers, WorkerSpec
from dsrun.launcher.specs.policies import DebugPolicy
from dsrun.launcher.specs.program import Program

from ...support.checkout import CHECKOUT
from ...support.editor import Editor
from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RUN = (
    "import sys; from dsrun.launcher.node.programs import run; sys.exit(run('debug', sys.argv[1:]))"
)


TABLES = "tcp", "tcp6"


def die_with_this() -> None:
    """Have a process end with this one: it might wait for an editor for good."""
    die_with_parent(signal.SIGKILL)


def task(*ranks: int, wait: bool = True) -> NodeJob:
    """A job with a secret of its own."""
    plain = NodeJob("", "", "", Program("x"), "/", {}, None, None)
    return plain._replace(
        debug_secret=os.urandom(8).hex(), debug=DebugPolicy(frozenset(ranks), wait=wait)
    )


class Debugged:
    """A worker that is debugged, and its editors.

    Attributes:
        name: of its socket.
        worker: its process.
    """

    def __init__(self, script: Path, *args: str, wait: bool = True, **env: str) -> None:
        job = task(0, wait=wait)
        self.name = sockets.name(job.debug_secret, 0)
        whole = {
            os.fsencode(name): os.fsencode(value) for name, value in {**os.environ, **env}.items()
        }
        argv = [os.fsencode(word) for word in (sys.executable, "-u", *args, str(script))]
        spec = WorkerSpec(0, argv, whole, os.fsencode(script.parent))
        with sockets.outfit([spec], StartingWorkers(job)) as (one,):
            self.worker = subprocess.Popen(
                one.argv,
                env=one.env,
                cwd=one.workdir,
                pass_fds=one.fds,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=die_with_this,  # noqa: PLW1509
            )
        self.programs: list[subprocess.Popen[bytes]] = []
        self.editors: list[Editor] = []

    def editor(self) -> Editor:
        """Connect an editor by a program of its own."""
        mine, theirs = socket.socketpair()
        env = os.environ | {"PYTHONPATH": str(CHECKOUT / "tests" / "import")}
        argv = [sys.executable, "-c", RUN, self.name]
        with theirs:
            self.programs.append(
                subprocess.Popen(
                    argv,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    env=env,
                    preexec_fn=die_with_this,  # noqa: PLW1509
                )
            )
        self.editors.append(Editor(mine))
        return self.editors[-1]

    def output(self) -> str:
        """What the worker has printed, once it has ended with 0."""
        text, _ = self.worker.communicate(timeout=HANG)
        assert self.worker.returncode == 0, text
        return text

    def close(self) -> None:
        """End all."""
        for editor in self.editors:
            editor.close()
        every: list[subprocess.Popen[Any]] = [self.worker, *self.programs]
        for process in every:
            process.kill()
            process.wait()
        if self.worker.stdout is not None:
            self.worker.stdout.close()


@pytest.fixture
def debugged() -> Iterator[Callable[..., Debugged]]:
    made: list[Debugged] = []

    def make(*given: Any, **more: Any) -> Debugged:
        made.append(Debugged(*given, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def listening(pid: int) -> set[str]:
    """The TCP sockets of a process that listen, by inode."""
    inodes = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            inodes.add(str(fd.readlink()).removeprefix("socket:[").rstrip("]"))
    tables = [Path(f"/proc/{pid}/net/{name}").read_text(encoding="ascii") for name in TABLES]
    rows = [line.split() for table in tables for line in table.splitlines()]
    return inodes & {row[9] for row in rows if row[3] == "0A"}
