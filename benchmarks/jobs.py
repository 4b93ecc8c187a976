"""Jobs on a virtual cluster for fault injection and memory measurements, with their processes."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.measure import CHECKOUT, WORKERS, Unfit, dsrun_of
from tests.cluster.hosts import Cluster, Process
from tests.cluster.machines import user_environment
from tests.support.limits import wait_for

HOSTFILE, FOLDER, LOG = "/run/hostfile", "/run/job", "/run/job.log"
SCRIPT = str(WORKERS / "fail.py")
LIMIT = 20.0


def dsrun(
    launcher: str, *options: str, script: str = SCRIPT, checkout: Path = CHECKOUT
) -> list[str]:
    """Return the command for all hosts of the hostfile, without the script's arguments."""
    return [
        *dsrun_of(checkout),
        "-H",
        HOSTFILE,
        "--launcher",
        launcher,
        *options,
        "--no_local_rank",
        script,
    ]


class Job:
    """A command on the login host that starts workers, the last of which can be made to fail.

    It is the last one because that is neither the first rank nor on the first host.

    Attributes:
        runner: the command.
        processes: all its processes on the login host and the other hosts, once it is up.
    """

    def __init__(self, cluster: Cluster, command: Sequence[str], workers: int) -> None:
        self.processes: list[Process] = []
        self._cluster = cluster
        self._workers = workers
        self._before = {process.pid for process in cluster.processes()}
        self._folder = cluster.path(FOLDER)
        self._folder.mkdir(exist_ok=True)
        for old in self._folder.iterdir():
            old.unlink()
        argv = cluster.login.argv([*command, FOLDER, f"{workers - 1}"], CHECKOUT)
        with cluster.path(LOG).open("w") as log:
            self.runner = subprocess.Popen(argv, env=user_environment(), stdout=log, stderr=log)

    def wait_up(self) -> None:
        """Return once all workers are up.

        Raises:
            Unfit: the command has ended instead; the text is what it wrote.
            TimeoutError: after two minutes.
        """
        what = f"{self._workers} workers of {self.runner.args!r}"
        wait_for(lambda: self._have_noted("up", self._workers), what, seconds=120)
        self.processes = self._new()

    def fail(self) -> tuple[float, float, int | None]:
        """Return the seconds from the exit to the runner's end and to clean hosts, and its code."""
        began = self._failed()
        ended = _seconds_until(self._has_ended, began)
        return ended, _seconds_until(self._is_clean, began), self.runner.poll()

    def restart(self) -> float:
        """Return the seconds from the exit until all workers of an elastic job are up again."""
        failed = self._failed()
        return self.again(self._workers) - failed

    def when_up(self, workers: int) -> float:
        """Return the time when the last of this many workers was first up."""
        return self._when("up", workers)

    def again(self, workers: int) -> float:
        """Return the time when the last of this many workers was up again, in a later round.

        Raises:
            Unfit: the command has ended instead; the text is what it wrote.
            TimeoutError: after two minutes.
        """
        wait_for(lambda: self._have_noted("again", workers), "the next round", seconds=120)
        return self._when("again", workers)

    def kill(self, pid: int) -> float:
        """Return the seconds from the death of this process to clean hosts."""
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return _seconds_until(self._is_clean, began)

    def close(self) -> None:
        """Stop all remaining processes."""
        for process in self._new():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self.runner.wait()

    def _failed(self) -> float:
        """Make the last worker fail, and return the time of its failure."""
        (self._folder / "go").touch()
        note = self._folder / "failed"
        wait_for(note.exists, "the failure")
        return float(note.read_text())

    def _have_noted(self, what: str, workers: int) -> bool:
        if self._has_ended():
            log = self._cluster.path(LOG).read_text(errors="replace")
            raise Unfit(f"{self.runner.args!r} ended:\n{log}")
        return all((self._folder / f"{what}-{rank}").exists() for rank in range(workers))

    def _when(self, what: str, workers: int) -> float:
        notes = (self._folder / f"{what}-{rank}" for rank in range(workers))
        return max(float(note.read_text()) for note in notes)

    def _has_ended(self) -> bool:
        return self.runner.poll() is not None

    def _is_clean(self) -> bool:
        self.runner.poll()
        # The cheap check comes first, because the thorough one takes milliseconds.
        return not any(_runs(process.pid) for process in self.processes) and not self._new()

    def _new(self) -> list[Process]:
        return [p for p in self._cluster.processes() if p.pid not in self._before]


@contextmanager
def started(cluster: Cluster, command: Sequence[str], workers: int) -> Iterator[Job]:
    """Provide a job with all workers up; stop it and all that remains of it after the `with` block.

    Raises:
        Unfit: its command ended before they were up.
    """
    job = Job(cluster, command, workers)
    try:
        job.wait_up()
        yield job
    finally:
        job.close()


def runner(job: Job) -> int:
    """Return the process that a user started."""
    return job.runner.pid


def node_launcher(job: Job) -> int:
    """Return the parent of a worker on the second host."""
    return parent(next(p.pid for p in job.processes if p.host == "n2" and SCRIPT in p.argv))


def ssh_client(job: Job) -> int:
    """Return the client on the login host that is connected to the second host."""
    clients = (p for p in job.processes if p.host == "login" and Path(p.argv[0]).name == "ssh")
    return next(p.pid for p in clients if "n2" in p.argv)


def parent(pid: int) -> int:
    """Return the parent of a process, as a pid of the real machine."""
    return int(_stat(pid)[1])


def _runs(pid: int) -> bool:
    try:
        return _stat(pid)[0] not in "ZX"
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    # The fields after the name, which may contain anything: state, parent, ... (proc(5)).
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _seconds_until(condition: Callable[[], bool], began: float) -> float:
    try:
        wait_for(condition, "the end", seconds=began + LIMIT - time.monotonic())
    except TimeoutError:
        return math.inf
    return time.monotonic() - began
