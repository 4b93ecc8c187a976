"""Jobs that wait to be hurt: workers that tell what they hear, and dsrun's own processes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..support.limits import NEVER, wait_for
from .command import COMMAND, Running
from .engines import ENGINES
from .traces import Traces

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from .hosts import Cluster

BY_NAME = {engine.name: engine for engine in ENGINES if engine.name != "mpich5"}
"""Of MPICH's Hydra one version will do: a job looks the same to both."""
EVERYWHERE = ("ssh", "openssh", "pdsh", "local", *BY_NAME)
everywhere = pytest.mark.parametrize("launcher", [*EVERYWHERE, "slurm"])
"""A test in all places; its fixture `site` is the cluster where the launcher is at home."""
here_and_there = pytest.mark.parametrize("launcher", ["ssh", "local"])

LOST = 75

AT_ONCE = ("--heartbeat_timeout", f"{NEVER:g}", "--grace", f"{NEVER:g}")
"""Options with which neither silence nor SIGKILL ends a job that a test waits for."""

GRACE = 5.0
"""Seconds for deaf workers, long enough to hear a signal on a busy machine."""

HEAD = """
import os, signal, sys, time

rank = int(os.environ["RANK"])
folder = os.path.dirname(sys.argv[0])
heard = []

def say(*words):
    line = (" ".join(map(str, words)) + chr(10)).encode()
    with open(f"{folder}/said-{rank}", "ab") as file:
        file.write(line)
    os.write(1, line)

def hear(*names, then=None):
    def handler(number, frame):
        say("hears", signal.Signals(number).name, time.monotonic())
        heard.append(number)
        if then is not None:
            os._exit(then)
    for name in names:
        signal.signal(getattr(signal, name), handler)

def wait_to_go():
    say("is up", os.getpid())
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.005)

def rest():
    say("is up", os.getpid())
    while True:
        time.sleep(0.02)
"""
"""What every worker here begins with; `say` also keeps each rank's words in a file.

It does not rest in pause(2): a signal just before it would be handled only after another one."""

OBEDIENT = "hear('SIGTERM', 'SIGINT', 'SIGHUP', then=0); rest()"
DEAF = "hear('SIGTERM', 'SIGINT', 'SIGHUP'); rest()"
PATIENT = """
hear("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
say("is up")
while not heard:
    time.sleep(0.005)
time.sleep(0.3)
os._exit(0)
"""
"""Ends a while after the first signal, so that a second one would be heard."""


class Job:
    """One job of two hosts (or of this one, with the local launcher): `with Job(...) as job`.

    Inside the block all its workers are up; at its end dsrun is killed if it still runs. Silence
    ends it only if the options say so, and deaf workers need a `--grace`.

    Attributes:
        hosts: where it runs, in rank order.
        size: how many workers it has.
        running: its dsrun.
    """

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        code: str,
        *options: str,
        launcher: str = "ssh",
        slots: int = 2,
        before: Sequence[str] = (),
        **popen: Any,
    ) -> None:
        """Prepare it; `before` are words before dsrun's own, as in `nohup dsrun`."""
        self.hosts = ("login",) if launcher == "local" else ("n1", "n2")
        self.size = slots * len(self.hosts)
        self._cluster = cluster
        self._traces = Traces(cluster)
        self._folder = folder
        self._script = folder / "train.py"
        self._script.write_text(f"{HEAD}\n{code}\n")
        where = place(launcher, slots, self.hosts)
        self._argv = [*before, *COMMAND, *where, *AT_ONCE, *options, str(self._script)]
        self._popen = {"cwd": folder, "text": False, **popen}

    def __enter__(self) -> Job:
        self.running = self._start()
        try:
            self.wait_up()
        except BaseException:
            self.running.kill()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.running.kill()

    def _start(self) -> Running:
        return Running(self._cluster.login.popen(self._argv, **self._popen))

    def wait_up(self) -> None:
        """Return as soon as all workers are up."""
        for rank in range(self.size):
            self.said(rank, "is up")

    def said(self, rank: int, pattern: str) -> re.Match[str]:
        """What this rank says, as dsrun shows it, once it does."""
        return self.running.wait_for_output(rf"(?m)^\w+:{rank}\| {pattern}")

    def words(self, rank: int) -> list[str]:
        """All that this rank has said, whether or not anybody was there to show it."""
        return (self._folder / f"said-{rank}").read_text().splitlines()

    def heard(self, rank: int) -> list[str]:
        """The signals that this rank has heard."""
        return [line.split()[1] for line in self.words(rank) if line.startswith("hears")]

    def go(self) -> None:
        """Let the workers go that wait for it."""
        (self._folder / "go").touch()

    def pids(self, host: str | None = None) -> list[int]:
        """The workers and what they have forked."""
        found = self._cluster.processes()
        return [
            p.pid for p in found if str(self._script) in p.argv and p.job and host in {None, p.host}
        ]

    def launchers(self, host: str) -> tuple[int, int]:
        """The pids of the guard and of the node launcher on a host."""
        (both,) = launchers(self._cluster, host)
        return both

    def wait(self) -> tuple[int, str]:
        """The exit code and the error output of dsrun, once it has ended."""
        ended = self.running.wait()
        return ended.returncode, ended.stderr

    def clean(self) -> None:
        """Nothing of the job is left anywhere, or not for long."""
        try:
            wait_for(lambda: not self._traces.leftovers(), "clean")
        except TimeoutError as error:
            raise AssertionError("\n".join([f"{error}", *self._traces.leftovers()])) from None


def place(launcher: str, slots: int, hosts: tuple[str, ...]) -> list[str]:
    """The options that say where a job runs."""
    if launcher == "local":
        return ["--launcher", "local", "--num_gpus", f"{slots}"]
    return [*options(launcher), "--host", ",".join(f"{host}:{slots}" for host in hosts)]


def options(launcher: str) -> tuple[str, ...]:
    """The options for a launcher of this name, which may be an MPI's (`engines`)."""
    engine = BY_NAME.get(launcher)
    if engine is None:
        return "--launcher", launcher
    engine.need()
    return engine.options


def launchers(cluster: Cluster, host: str) -> list[tuple[int, int]]:
    """The pids of each guard on a host and of its node launcher, in the order of the pids.

    A fork of the node launcher has the same command line for a moment, but not the same parent.
    """
    parents = {}
    for process in cluster.processes():
        if process.host == host and process.argv[1:4] == ("-E", "-S", "-c"):
            with suppress(OSError):  # it has ended
                parents[process.pid] = parent(process.pid)
    return sorted(
        (above, pid)
        for pid, above in parents.items()
        if above in parents and parents[above] not in parents
    )


def parent(pid: int) -> int:
    """The parent of a process, as the real machine counts."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def state(pid: int) -> str:
    """What a process does, in one letter (proc(5)): `T` is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
