"""What a test must not leave behind on a cluster, and the bystanders that it must not hurt."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..support.limits import HANG, wait_for
from .machines import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .hosts import Cluster, Process
    from .machines import Machine

# Other people's work that looks like ours: in `ps`, and by having a job.
BYSTANDER = "import sys; print('here', flush=True); sys.stdin.read()"
BYSTANDER_ARGUMENTS = ("-m", "dsrun.launcher.launch", "--world_info=e30=", "--node_rank=0")


COARSE = 5
"""CLOCK_REALTIME_COARSE (clock_gettime(2)), which file systems take for their times."""


class Traces:
    """The processes, listening ports and files of a cluster at the moment this is made.

    Raises:
        OSError: the power of a host is off, so that nobody can tell what it has.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._began = time.clock_gettime_ns(COARSE)
        self._processes = {process.pid for process in cluster.processes()}
        self._ports = {machine.name: machine.listening() for machine in cluster.machines}
        self._files = {machine.name: files(machine) for machine in cluster.machines}

    def leftovers(self) -> list[str]:
        """What has come since and is still there, each with the name of the machine."""
        found = []
        for machine in self._cluster.machines:
            ports = machine.listening() - self._ports[machine.name]
            found += [f"{machine.name}: something listens on port {port}" for port in ports]
            new_files = files(machine) - self._files[machine.name]
            found += [f"{machine.name}: {path} is left" for path in new_files]
        found += [
            f"{p.host}: process {p.pid} of job {p.job!r} runs: {shlex.join(p.argv)}"
            for p in self._new_processes()
        ]
        return sorted(found)

    def remove(self) -> list[str]:
        """End the processes and remove the files that have come since, for the tests to come.

        What may be the real machine's stays: there is a line for each such file.
        """
        for process in self._new_processes():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        kept = []
        for machine in self._cluster.machines:
            for path in sorted(files(machine) - self._files[machine.name]):
                why = obstacle(machine, path, self._began)
                if why:
                    kept.append(f"{machine.name}: {path} is not removed: {why}")
                else:
                    machine.run([*REMOVE, path])
        return kept

    def _new_processes(self) -> list[Process]:
        new = [p for p in self._cluster.processes() if p.pid not in self._processes]
        return [p for p in new if not self._belongs(p)]

    def _belongs(self, process: Process) -> bool:
        # A test may have switched a host off and on, or restarted its sshd, or docker's daemon.
        listener = process.argv[0].startswith("sshd:") and "[listener]" in process.argv[0]
        docker = process.argv[0] == "containerd" or "dockerd" in process.argv
        daemon = listener or docker or process.argv[0] == "slurmd"
        return daemon or process.pid in {machine.pid for machine in self._cluster.machines}


REMOVE = ("rm", "-rf", "--one-file-system", "--preserve-root=all", "--")
"""Removes nothing on which something was mounted a moment ago (rm(1))."""


def obstacle(machine: Machine, path: str, since: int) -> str:
    """Why a test must not remove an entry of a host's own folder, "" if it may.

    Args:
        machine: the host.
        path: the entry.
        since: when the test began, in nanoseconds of the file system's clock.
    """
    place = machine.root / path.lstrip("/")
    status, folder = place.lstat(), place.parent.stat()
    if folder.st_dev == Path(path).parent.stat().st_dev:
        return "its folder is the real machine's"
    if status.st_dev != folder.st_dev or any(one.is_relative_to(path) for one in mounts(machine)):
        return "something is mounted there"
    return "it was there before" if status.st_ctime_ns < since else ""


def mounts(machine: Machine) -> list[Path]:
    """Where something is mounted on a host: in mountinfo (proc(5)) a blank is an octal number."""
    rows = Path(f"/proc/{machine.pid}/mountinfo").read_bytes().splitlines()
    places = [row.split(b" ")[4] for row in rows]
    return [Path(os.fsdecode(one.decode("unicode_escape").encode("latin-1"))) for one in places]


def files(machine: Machine) -> set[str]:
    """The entries of the host's own folders.

    Raises:
        OSError: its power is off.
    """
    if not machine.pid:
        raise OSError(f"{machine.name} is off: nobody can tell what files it has")
    return {
        f"{folder}/{path.name}"
        for folder in PRIVATE
        for path in (machine.root / folder.lstrip("/")).iterdir()
    }


class Bystanders:
    """Innocent processes, one on each machine that is watched; they live on for later tests."""

    def __init__(self) -> None:
        self._processes: dict[Machine, subprocess.Popen[str]] = {}

    @contextmanager
    def watched(self, machine: Machine) -> Iterator[None]:
        """The one on this machine must outlive the `with` block, unless its host dies.

        Raises:
            AssertionError: it did not.
        """
        process, host_process = self._there(machine), machine.pid
        yield
        died = process.poll() is not None and machine.pid == host_process
        assert not died, f"{machine.name}: a bystander was killed"

    def close(self) -> None:
        """End them."""
        for process in self._processes.values():
            process.communicate()
        self._processes.clear()

    def _there(self, machine: Machine) -> subprocess.Popen[str]:
        process = self._processes.get(machine)
        if process is None or process.poll() is not None:
            if process is not None:
                process.communicate()
            process = self._processes[machine] = _bystander(machine)
        return process


def _bystander(machine: Machine) -> subprocess.Popen[str]:
    command = [sys.executable, "-S", "-c", BYSTANDER, *BYSTANDER_ARGUMENTS]
    process = machine.popen(
        command, env={"DSRUN_JOB_ID": "of-somebody-else"}, stdin=subprocess.PIPE
    )
    if process.stdout is None or process.stdout.readline() != "here\n":
        raise OSError(f"no bystander on {machine.name}: {process.communicate()[1]}")
    return process


@contextmanager
def nothing_left(
    cluster: Cluster, seconds: float = HANG, bystanders: Bystanders | None = None
) -> Iterator[None]:
    """What the `with` block does to the cluster leaves nothing behind and hurts nobody else.

    If it does leave something, that is removed, so that later tests have a clean cluster. Without
    `bystanders`, there are new ones.

    Raises:
        AssertionError: it does; there is a line for each thing, after so many seconds of patience.
    """
    with ExitStack() as stack:
        others = bystanders or stack.enter_context(closing(Bystanders()))
        for machine in (cluster.login, cluster.hosts[0]):
            stack.enter_context(others.watched(machine))
        traces = Traces(cluster)
        yield
        try:
            wait_for(lambda: not traces.leftovers(), "a clean cluster", seconds)
        except TimeoutError as error:
            found = [f"{error}", *traces.leftovers()]
            found += traces.remove()
            raise AssertionError("\n".join(found)) from None
