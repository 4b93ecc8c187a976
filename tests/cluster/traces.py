"""What a test must not leave behind on a cluster, and the bystanders that it must not hurt."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager, suppress
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


class Traces:
    """The processes, listening ports and files of a cluster at the moment this is made."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
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

    def remove(self) -> None:
        """End the processes and remove the files that have come since, for the tests to come."""
        for process in self._new_processes():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        for machine in self._cluster.machines:
            for path in files(machine) - self._files[machine.name]:
                machine.run(["rm", "-rf", path])

    def _new_processes(self) -> list[Process]:
        new = [p for p in self._cluster.processes() if p.pid not in self._processes]
        return [p for p in new if not self._belongs(p)]

    def _belongs(self, process: Process) -> bool:
        # A test may have switched a host off and on, or restarted its sshd.
        listener = process.argv[0].startswith("sshd:") and "[listener]" in process.argv[0]
        daemon = listener or process.argv[0] == "slurmd"
        return daemon or process.pid in {machine.pid for machine in self._cluster.machines}


def files(machine: Machine) -> set[str]:
    """The entries of the host's own folders."""
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
            traces.remove()
            raise AssertionError("\n".join(found)) from None
