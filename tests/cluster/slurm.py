r"""A real Slurm on a virtual cluster: its controller at the login, a `slurmd` on every host.

::

    with Cluster(4) as cluster, Slurm(cluster) as slurm:
        slurm.run("srun", "-N4", "hostname")
        job = slurm.sbatch("srun hostname", "-N2", "--gpus-per-node=2")
        assert slurm.wait(job) == Ended("COMPLETED", 0, "n1\nn2\n")

Its configuration lies where every machine of the cluster has its `/etc/slurm`, so that Slurm's
commands need no variables, in a job, over ssh and at the login alike. All else of it is in the
cluster's own `/run/slurm`: logs (`slurmctld.log`, `n1.log`, ...), keys, sockets, state and spool.
The real machine's files are not touched.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..support.limits import HANG, wait_for
from .machines import Temporary, lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .hosts import Cluster, Process
    from .machines import Host, Machine

CONFIGURATION = "/run/etc/slurm"
"""The `/etc/slurm` of all machines of the cluster."""
FOLDER = "/run/slurm"
USUAL = Path(__file__).with_name("slurm.conf")
CPUS = 8
"""Processors a node, as declared; there may be fewer."""
NVIDIA = 195
"""The major number of the devices that GPUs have here; Slurm insists on devices."""
PORT = 6817
"""Where `slurmctld` listens (`SlurmctldPort` of slurm.conf(5))."""

MUNGED = (
    *("munged", "--foreground", "--num-threads=2"),
    *(f"--{name}={FOLDER}/munge.{name.partition('-')[0]}" for name in ("key-file", "socket")),
    *(f"--{name}-file={FOLDER}/munge.{name}" for name in ("pid", "log", "seed")),
)
PARTITIONS = (
    "PartitionName=batch Nodes=ALL Default=YES PriorityTier=2 PreemptMode=OFF",
    "PartitionName=spare Nodes=ALL PriorityTier=1",
)
"""Jobs in `spare` give way to those in `batch`: SIGTERM, `KillWait`, and back to the queue."""

OVER = {"CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"}
"""The states in which a job stays (JOB STATE CODES of squeue(1))."""
OF_A_JOB = re.compile(r"job|_\d+\.")
"""What the name of a file in the spool of a node looks like: `job00012`, `n1_12.0`."""


class Ended(NamedTuple):
    """What has become of a batch job.

    Attributes:
        state: one of `OVER`.
        code: its exit code, or 128 and the number of the signal that ended it.
        output: what it has written.
    """

    state: str
    code: int
    output: str


class Slurm(Temporary):
    """Inside the `with` block the hosts of a cluster are nodes of Slurm, and idle at its start.

    Nodes have `CPUS` processors each, and GPUs that nothing but their number says anything of
    (`CUDA_VISIBLE_DEVICES` is set where a job asks for some). There are the partitions `batch`,
    the default, and `spare`, whose jobs are requeued where `batch` needs the nodes.

    A batch job starts within a second, for Slurm looks once a second; `srun` and `salloc` start at
    once. A host that loses its power loses its `slurmd` as well: see `powered_off`.

    Two things are not as on most real clusters. Processes are found by their parents here, not by
    control groups (`proctrack/linuxproc`): SIGTERM of a cancelled job reaches everything below its
    tasks and its script, and not only these themselves, but nothing whose parent has ended, not
    even SIGKILL. And `KillWait` is 10 s, not 30.

    Args:
        cluster: one that is up.
        gpus: how many each host has; else two each, and four on the last.

    Attributes:
        cluster: the same.
    """

    def __init__(self, cluster: Cluster, gpus: Sequence[int] = ()) -> None:
        self.cluster = cluster
        self._gpus = tuple(gpus) or (*[2] * (len(cluster.hosts) - 1), 4)
        self._folder = cluster.path(FOLDER)
        self._started: list[subprocess.Popen[str]] = []

    def run(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command at the login to its end; see `Machine.run`, also for the options."""
        return self.cluster.login.run(command, **options)

    def sbatch(self, script: str, *options: str, **popen: Any) -> int:
        """Submit a batch job, written for bash; returns its id.

        Raises:
            ValueError: Slurm does not take it; the text says why.
        """
        command = ["sbatch", "--parsable", f"--output={FOLDER}/output/%j", *options]
        with self.cluster.login.popen(command, stdin=subprocess.PIPE, **popen) as process:
            accepted, errors = process.communicate(f"#!/bin/bash\n{script}\n")
        if process.returncode:
            raise ValueError(errors.strip())
        return int(accepted.partition(";")[0])

    @contextmanager
    def allocation(self, *names: str) -> Iterator[int]:
        """These nodes are ours inside the `with` block, as with `salloc`; gives the job's id."""
        wanted = [f"--nodelist={','.join(names)}", f"--nodes={len(names)}", "--exclusive"]
        granted = self.run("salloc", "--no-shell", *wanted)
        job = int(re.findall(r"job allocation (\d+)", granted.stderr)[0])
        try:
            yield job
        finally:
            self.run("scancel", str(job))

    def job(self, job: int) -> dict[str, str]:
        """What `scontrol show job` says of it, by Slurm's names: `JobState`, `NodeList`, ..."""
        shown = self.run("scontrol", "--oneliner", "show", "job", str(job)).stdout
        return dict(re.findall(r"(\S+?)=(\S*)", shown.partition("\n")[0]))

    def output(self, job: int) -> str:
        """What a job has written so far, unless it was told to write elsewhere."""
        file = self._folder / "output" / str(job)
        return file.read_text(errors="replace") if file.exists() else ""

    def wait_for_state(self, job: int, *states: str, seconds: float = HANG) -> None:
        """Return as soon as a job is in one of these states.

        Raises:
            TimeoutError: it is not, after so many seconds.
        """
        awaited = f"job {job} to be {' or '.join(states)}"
        wait_for(lambda: self.job(job)["JobState"] in states, awaited, seconds)

    def wait(self, job: int, seconds: float = HANG) -> Ended:
        """What has become of a job, once it is over.

        Raises:
            TimeoutError: it is not, after so many seconds.
        """
        self.wait_for_state(job, *sorted(OVER), seconds=seconds)
        shown = self.job(job)
        code, number = map(int, shown["ExitCode"].split(":"))
        return Ended(shown["JobState"], 128 + number if number else code, self.output(job))

    def cancel_all(self) -> None:
        """End every job there is, and wait until no node has anything of one any more."""
        self.run("scancel", "--user=root")
        wait_for(lambda: not self.jobs(), "the end of all jobs")

    def jobs(self) -> list[str]:
        """A line for each job that waits, runs or ends."""
        return self.run("squeue", "--noheader").stdout.splitlines()

    def leftovers(self) -> list[str]:
        """What there is of jobs: in the queue, and in the nodes' spools."""
        spools = [path for path in self._folder.glob("spool/*/*") if OF_A_JOB.search(path.name)]
        return [*self.jobs(), *(f"{path.parent.name}: {path.name}" for path in spools)]

    @contextmanager
    def nothing_left(self, seconds: float = HANG) -> Iterator[None]:
        """What the `with` block does leaves no job, and if it does, there is none all the same.

        Raises:
            AssertionError: it does; there is a line for each thing, after so many seconds.
        """
        yield
        try:
            wait_for(lambda: not self.leftovers(), "the end of all jobs", seconds)
        except TimeoutError as error:
            found = [f"{error}", *self.leftovers()]
            self.cancel_all()
            raise AssertionError("\n".join(found)) from None

    @contextmanager
    def powered_off(self, host: Host) -> Iterator[None]:
        """A node is without power inside the `with` block, its jobs are over, and it is idle after.

        Slurm itself notices only after five minutes (`SlurmdTimeout`), unless told: see `give_up`.
        """
        host.power_off()
        try:
            yield
        finally:
            self.give_up(host)
            host.power_on()
            self._empty_spool(host.name)
            self._start_nodes([host])

    def give_up(self, host: Host) -> None:
        """Tell Slurm that a node is dead: what ran there fails, or is requeued."""
        self.run("scontrol", "update", f"NodeName={host.name}", "State=DOWN", "Reason=dead")

    def close(self) -> None:
        """Stop it, with all its jobs; nothing of it is left."""
        if self._daemons("slurmctld"):
            self.cancel_all()
        self._stop("slurmctld", "slurmd", "munged")
        for folder in (CONFIGURATION, FOLDER):
            shutil.rmtree(self.cluster.path(folder), ignore_errors=True)

    def _configure(self) -> None:
        for folder in ("dev", "output", "state"):
            (self._folder / folder).mkdir(parents=True)
        for name in self.cluster.names:
            self._empty_spool(name)
        for number in range(max(self._gpus)):
            device = os.makedev(NVIDIA, number)
            os.mknod(self._folder / "dev" / f"gpu{number}", stat.S_IFCHR, device)
        (self._folder / "munge.key").write_bytes(os.urandom(128))
        (self._folder / "munge.key").chmod(0o600)
        self.cluster.path(CONFIGURATION).mkdir(exist_ok=True)  # the packages have one
        for name, content in self._files().items():
            self.cluster.path(f"{CONFIGURATION}/{name}").write_text(content)

    def _empty_spool(self, name: str) -> None:
        spool = self._folder / "spool" / name
        shutil.rmtree(spool, ignore_errors=True)
        spool.mkdir(parents=True)

    def _files(self) -> dict[str, str]:
        named = tuple(zip(self.cluster.names, self._gpus, strict=True))
        nodes = [f"NodeName={name} CPUs={CPUS} Gres=gpu:{gpus}" for name, gpus in named]
        device = f"{FOLDER}/dev/gpu"
        return {
            # Without it, slurmd looks for control groups in a place that hosts do not have.
            "cgroup.conf": "CgroupPlugin=cgroup/v1\n",
            "gres.conf": lines(
                f"NodeName={name} Name=gpu File={device}[0-{gpus - 1}]" for name, gpus in named
            ),
            "slurm.conf": USUAL.read_text() + lines([*nodes, *PARTITIONS]),
        }

    def _start(self) -> None:
        self._configure()
        login = self.cluster.login
        self._daemon(login, *MUNGED)
        wait_for((self._folder / "munge.socket").exists, "munged")
        self._daemon(login, "slurmctld", "-D")
        wait_for(lambda: PORT in login.listening(), "slurmctld")
        self._start_nodes(self.cluster.hosts)

    def _start_nodes(self, hosts: Sequence[Host]) -> None:
        for host in hosts:
            self._daemon(host, "slurmd", "-D")
        waiting = {host.name for host in hosts}
        wait_for(lambda: waiting <= self._idle(), f"idle nodes {waiting}")

    def _idle(self) -> set[str]:
        # Asked for some nodes only, Slurm may answer with what it knew of them before.
        shown = self.run("sinfo", "--noheader", "--Node", "--format=%T %N").stdout
        return {line.partition(" ")[2] for line in shown.splitlines() if line.startswith("idle ")}

    def _daemon(self, machine: Machine, *command: str) -> None:
        with (self._folder / f"{machine.name}-{command[0]}.out").open("w") as out:
            self._started.append(machine.popen(command, stdout=out, stderr=out))

    def _daemons(self, *names: str) -> list[Process]:
        return [p for p in self.cluster.processes() if p.argv[0].partition(" ")[0] in names]

    def _stop(self, *names: str) -> None:
        # A host's processes are not our own children, who could be sent a signal.
        for process in self._daemons(*names):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
        for started in self._started:
            started.wait(HANG)
