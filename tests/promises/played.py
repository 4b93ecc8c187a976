"""Jobs to be hurt, started in each way; what is above their workers; and what is left of them."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..cluster import contained
from ..cluster.command import CHECKOUT, Running
from ..cluster.held import Held
from ..cluster.hosts import Cluster
from ..cluster.jobs import HEAD, Job, parent
from ..cluster.slurm import Slurm
from ..cluster.test_detached import Terminal
from ..support.limits import wait_for
from .rows import AGAIN, COLLECTIVE, HANG, OPTIONS, OTHERS, SILENCE, WAYS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..cluster.hosts import Process
    from ..cluster.machines import Host
    from .rows import Row

SLOTS = 2
"""Workers on each of two hosts; the last one is hurt, or its host is."""

UP = 60.0
"""Seconds until a job is up."""

WORKER = """
import contextlib
step = 0
see, ready = os.pipe()
child = os.fork() if "alone" not in sys.argv else -1
if child == 0:
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    os.setsid()
    os.write(ready, b".")
    time.sleep(6000)
    os._exit(0)
if child > 0:
    os.read(see, 1)
if "plain" not in sys.argv:
    hear("SIGTERM", "SIGINT", "SIGHUP", then=None if "deaf" in sys.argv else 0)
place = f"{folder}/{os.environ['DSRUN_JOB_ID']}-{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"
pipes = [f"{place}-{one}" for one in range(int(os.environ["WORLD_SIZE"]))]
for path in pipes:
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path)
ends = [os.open(path, os.O_RDWR) for path in pipes]
say("is up", os.getpid())
while not step or not os.path.exists(f"{folder}/go"):
    step += 1
    print("line", step, flush=True)
    for end in ends:
        os.write(end, b".")
    for _ in ends:
        os.read(ends[rank], 1)
    time.sleep(0.05)
for end in ends:
    os.write(end, b"." * 100)
if child > 0:
    os.kill(child, signal.SIGKILL)
print("done", step, flush=True)
"""
"""Goes on from step to step together with the other ranks, as training does, until it may end.

It has a child in a session of its own that hears no signal to stop. With the word `deaf` it hears
none itself, with `plain` they end it as they end any program, and with `alone` it has no child.
"""

COLLECTIVES = (
    """
import os
for ours, theirs in (("RANK", "RANK PROCID"), ("WORLD_SIZE", "SIZE NTASKS")):
    one, other = theirs.split()
    for name in (f"OMPI_COMM_WORLD_{one}", f"SLURM_{other}"):
        if ours not in os.environ and name in os.environ:
            os.environ[ours] = os.environ[name]
os.environ.setdefault("MASTER_ADDR", "n1")
os.environ.setdefault("MASTER_PORT", "29511")
"""
    + HEAD
    + f"""
from datetime import timedelta
import torch
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=timedelta(seconds={COLLECTIVE:g}))
"""
    + """
see, ready = os.pipe()
child = os.fork() if "children" in sys.argv else -1
if child == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    os.write(ready, b".")
    time.sleep(6000)
    os._exit(0)
if child > 0:
    os.read(see, 1)
beat = lambda: None
if "beats" in sys.argv:
    from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient
    client = RankMonitorClient()
    client.init_workload_monitoring()
    beat = client.send_heartbeat
say("is up", os.getpid())
step, go, order = 0, torch.zeros(1), f"{folder}/order-{rank}"
while not go:
    step += 1
    print("line", step, flush=True)
    if os.path.exists(order):
        with open(order) as file:
            word = file.read()
        os.unlink(order)
        if word == "raise":
            raise RuntimeError("batch 17 is bad")
        os._exit(int(word))
    go = torch.tensor([float(os.path.exists(f"{folder}/go"))])
    dist.all_reduce(go, op=dist.ReduceOp.MIN)
    beat()
    time.sleep(0.05)
if child > 0:
    os.kill(child, signal.SIGKILL)
say("done", step)
dist.destroy_process_group()
"""
)
"""Ranks that meet in a collective in each step, as training does, however they are started."""

CHECK = "touch {0}/checks-$(hostname); while [ ! -e {0}/checked ]; do sleep 0.05; done"
"""A health check that waits for a file."""

ROLES = """
[[role]]
name = "server"
hosts = ["n1"]
workers = 1
command = ["sh", "-c", "echo serves; exec sleep 1000"]
ready = "line:serves"
ends = "never"
on_failure = "restart"

[[role]]
name = "trainer"
hosts = ["n2"]
script = "{script}"
after = ["server"]
ends = "job"
"""


class PlayedJob(Job):
    """A job of a row; inside the `with` block it is in the phase of the row.

    Attributes:
        cluster: where it runs.
        slurm: the Slurm there, if it runs in an allocation.
        allocated: the number of that.
        folder: its files, which all hosts see.
        struck: when it was struck, or when its workers were told to end.
    """

    def __init__(self, row: Row, cluster: Cluster, folder: Path) -> None:
        self.row, self.cluster, self.folder = row, cluster, folder
        self.slurm: Slurm | None = None
        self.allocated = 0
        self.struck = 0.0
        options = [*OPTIONS, *row.options, "--report_file", str(folder / "report.json")]
        if row.phase == "starting":
            options += ["--health_command", CHECK.format(folder)]
        super().__init__(cluster, folder, WORKER, *options, slots=SLOTS)
        hosts = ["--host", ",".join(f"{host}:{SLOTS}" for host in self.hosts)]
        self._where = [*(WAYS | OTHERS)[row.way].options, *hosts]
        self._options = options
        plain = ["plain"] if row.fault == "worker-sigterm" else []
        self._args = ["deaf"] if row.phase == "stopping" else plain
        self._argv = [
            *(sys.executable, str(CHECKOUT / "bin" / "dsrun"), *self._where, *options),
            *(str(folder / "train.py"), *self._args),
        ]

    def _start(self) -> Running:
        if self.row.fault != "reader-gone":
            return super()._start()
        self._output, self._popen["stdout"] = os.pipe()
        running = super()._start()
        os.close(self._popen["stdout"])
        return running

    def close_output(self) -> None:
        """Go away, as the reader of its output."""
        os.close(self._output)

    @property
    def n2(self) -> Host:
        """The host that is hurt."""
        return self.cluster.host("n2")

    def mark(self) -> None:
        """Count seconds from now on."""
        self.struck = time.monotonic()

    def wait_up(self) -> None:
        """Return as soon as the job is in its phase."""
        if self.row.phase == "before":
            return
        if self.row.phase == "starting":
            self._wait(lambda: all((self.folder / f"checks-{n}").exists() for n in self.hosts))
            return
        self._wait(lambda: self.times_up(self.size) == 1)
        if self.row.phase == "stopping":
            os.kill(self.runner(), signal.SIGTERM)
            self._wait(lambda: all("SIGTERM" in self.heard(rank) for rank in range(self.size)))

    def _wait(self, condition: Callable[[], bool]) -> None:
        over = self.running.process.poll
        wait_for(lambda: condition() or over() is not None, f"up\n{self.running}", UP)
        assert condition(), f"it has ended before: {self.running}"

    def words(self, rank: int) -> list[str]:
        """All that this rank has said."""
        return super().words(rank) if (self.folder / f"said-{rank}").exists() else []

    def times_up(self, size: int) -> int:
        """How often the first workers have come up."""
        ups = [[one for one in self.words(rank) if "is up" in one] for rank in range(size)]
        return min(map(len, ups))

    def finish(self) -> None:
        """Let the workers end well, once what was hurt has come back."""
        self.mark()
        self.go()

    def shown(self) -> str:
        """Its standard output."""
        return self.running.stdout

    def let_start(self) -> None:
        """Let the health checks end."""
        (self.folder / "checked").touch()

    def runner(self) -> int:
        """The process of dsrun."""
        return self.running.pid

    def guard(self) -> int:
        """The guard on the second host."""
        return self.launchers("n2")[0]

    def launcher(self) -> int:
        """The node launcher on the second host."""
        return self.launchers("n2")[1]

    def client(self) -> int:
        """The process at the login that has reached the second host."""
        found = [p for p in self._at_login() if p.argv[0] == "ssh" and "n2" in p.argv]
        pdsh = [p for p in self._at_login() if p.argv[0] == "pdsh"]
        return (pdsh or found)[0].pid

    def session(self) -> int:
        """The process of sshd on the second host that serves the login."""
        found = [p for p in self.cluster.processes() if p.host == "n2"]
        return next(p.pid for p in found if p.argv[0].startswith("sshd: root@"))

    def workers(self) -> list[int]:
        """The workers on the second host, without their children."""
        above = self.launcher()
        return [pid for pid in self.pids("n2") if parent(pid) == above]

    def left(self) -> list[str]:
        """What is left of it."""
        return self._traces.leftovers()

    def remove(self) -> None:
        """End what is left of it."""
        self._traces.remove()

    def _at_login(self) -> list[Process]:
        return [p for p in self.cluster.processes() if p.host == "login"]


class EngineJob(PlayedJob):
    """A job whose nodes one program has started, dsrun's only child."""

    def client(self) -> int:
        """The engine."""
        pid = self.running.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


class SlurmJob(EngineJob):
    """A job in an allocation of its two hosts."""

    def __enter__(self) -> PlayedJob:
        assert self.slurm is not None
        with ExitStack() as stack:
            self.allocated = stack.enter_context(self.slurm.allocation(*self.hosts))
            names = {"SLURM_JOB_ID": str(self.allocated), "SLURM_JOB_NODELIST": "n[1-2]"}
            self._popen["env"] = {**self._popen.get("env", {}), **names}
            super().__enter__()
            self._released = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._released.close()
        wait_for(lambda: self.slurm and not self.slurm.leftovers(), "the end of the allocation")


class ContainerJob(PlayedJob):
    """A job in containers, whose processes hosts do not see by their own numbers."""

    def guard(self) -> int:
        """The guard, the first process of its container."""
        return contained.guard(self.n2)

    def launcher(self) -> int:
        """The node launcher."""
        return contained.node_launcher(self.n2)

    def client(self) -> int:
        """The client of the runtime on the second host."""
        return contained.client(self.n2)

    def pids(self, host: str | None = None) -> list[int]:
        """The workers and what they have forked."""
        hosts = [one for one in self.cluster.hosts if one.name in self.hosts]
        where = [one for one in hosts if host in {None, one.name}]
        script = str(self.folder / "train.py")
        found = [(one, pid) for one in where for pid in contained.processes(one, script)]
        return [pid for one, pid in found if pid != self.running.pid and one.pid]

    def left(self) -> list[str]:
        """What is left of it, containers and what is in them too."""
        found = super().left()
        for host in filter(lambda one: one.pid, self.cluster.hosts[:2]):
            found += [f"{host.name}: container {c}" for c in contained.PODMAN.containers(host)]
            inside = contained.processes(host, str(self.folder / "train.py"), "conmon")
            found += [f"{host.name}: process {pid} of a container" for pid in inside]
        return found


class ElasticJob(PlayedJob):
    """A job that starts its workers again."""

    def finish(self) -> None:
        """Wait for the next round, unless nothing was lost, and let the workers end well."""
        if self.row.promise is not AGAIN:
            return super().finish()
        lost = 0 if self.row.fault.startswith("worker") else SLOTS
        self._wait(lambda: self.times_up(self.size - lost) == 2)
        return self.go()


class RolesJob(PlayedJob):
    """A server on the first host, and a trainer on the second."""

    def __init__(self, row: Row, cluster: Cluster, folder: Path) -> None:
        super().__init__(row, cluster, folder)
        self.size = SLOTS
        (folder / "roles.toml").write_text(ROLES.format(script=folder / "train.py"))
        self._argv = [*self._argv[:-1], "--roles", str(folder / "roles.toml")]

    def server(self) -> int:
        """The worker of the server."""
        found = [p for p in self.cluster.processes() if p.host == "n1" and p.job]
        return next(p.pid for p in found if p.argv == ("sleep", "1000"))

    def finish(self) -> None:
        """Wait for the server, and let the trainer end well."""
        if self.row.fault.startswith("server"):
            wait_for(lambda: self.running.stderr.count("server is ready") == 2, "the server", UP)
        super().finish()


class HeldJob(PlayedJob):
    """A job on held nodes; the hold must still have all of them, and runs another job on them."""

    def _start(self) -> Running:
        self._hold = Held(self.cluster, self.folder, f"n1:{SLOTS},n2:{SLOTS}", *OPTIONS)
        self._hold.__enter__()
        words = [*self._options, str(self.folder / "train.py"), *self._args]
        words = [w for at, w in enumerate(words) if at >= len(OPTIONS)]
        return self._hold.start(*words)

    def hold(self) -> int:
        """The process of the hold."""
        return self._hold.running.pid

    def left(self) -> list[str]:
        """What is left of the job, or of the hold once that has ended."""
        if self._hold.running.process.poll() is not None:
            return super().left()
        return [f"process {pid} of the job" for pid in self.pids()]

    def release(self) -> None:
        """See that the hold runs another job on all its nodes, and release them."""
        if self._hold.running.process.poll() is None:
            wait_for(lambda: len(self._hold.tell("tell.py")) == self.size, "all nodes again", UP)
            self._hold.release()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._hold.__exit__(*error)


class DetachedJob(PlayedJob):
    """A job whose terminal has been killed; `dsrun-job wait` says how it ends."""

    def _start(self) -> Running:
        script = (self.folder / "train.py").read_text()
        self._terminal = Terminal(self.cluster, self.folder, {})
        (self.folder / "train.py").write_text(script)
        self._job = self._terminal.start(*self._where, *self._options)
        argv = [sys.executable, str(CHECKOUT / "bin" / "dsrun-job"), "wait", self._job]
        env = {"XDG_STATE_HOME": str(self.folder / "state")}
        process = self.cluster.login.popen(argv, env=env, cwd=self.folder, text=False)
        return Running(process)

    def runner(self) -> int:
        """The process of dsrun."""
        return int(self._terminal.running()["pid"])

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._terminal.job("kill", self._job, "--now")


class OtherJob(PlayedJob):
    """A job of any launcher, with ranks that meet in collectives."""

    def __init__(self, row: Row, cluster: Cluster, folder: Path) -> None:
        super().__init__(row, cluster, folder)
        script = folder / "train.py"
        script.write_text(COLLECTIVES)
        words = ["children"] if row.fault == "children" else []
        self._program = [sys.executable, "-u", str(script), *words]
        self._popen["env"] = {"DSRUN_JOB_ID": folder.name}
        self._argv = self.command()

    def command(self) -> list[str]:
        """The words that start it."""
        raise NotImplementedError

    def launcher(self) -> int:
        """The process that has started the workers of the second host."""
        return parent(self.workers()[0])

    def workers(self) -> list[int]:
        """The workers on the second host."""
        return sorted(pid for pid in self.pids("n2") if parent(pid) not in self.pids("n2"))

    def end_if_again(self) -> None:
        """Let the workers end well if those of a host or more come up again, or none was hurt."""

        def ups() -> int:
            return sum("is up" in one for rank in range(self.size) for one in self.words(rank))

        over, unhurt = self.running.process.poll, self.row.fault == "reader-gone"
        enough, limit = ups() + SLOTS, SILENCE if unhurt else 3 * COLLECTIVE
        with suppress(TimeoutError):
            wait_for(lambda: over() is not None or ups() >= enough, "again", limit)
        if unhurt or ups() >= enough:
            self.go()

    def shown(self) -> str:
        """What was shown, or said by a rank before nobody read it any more."""
        return "\n".join([super().shown(), *self.words(0)])


class DsrunJob(OtherJob):
    """A job of dsrun's own."""

    def command(self) -> list[str]:
        """The words that start it."""
        own = [sys.executable, str(CHECKOUT / "bin" / "dsrun"), *self._where, *self._options]
        self._popen.pop("env")
        return [*own, *self._program[2:]]


class MpirunJob(OtherJob):
    """A job of Open MPI's mpirun."""

    def command(self) -> list[str]:
        """The words that start it."""
        where = ["--host", ",".join(f"{one}:{SLOTS}" for one in self.hosts)]
        own = ["--allow-run-as-root", "--mca", "plm_rsh_agent", "ssh", "-x", "DSRUN_JOB_ID"]
        return ["mpirun.openmpi", *own, *where, *self._program]


class TorchrunJob(OtherJob):
    """A job of torchrun, which somebody has to start on each host."""

    program = "torchrun"
    options = ""
    arguments = ""

    def command(self) -> list[str]:
        """The words that start it; one host is enough, as for dsrun."""
        job, torchrun = self.folder.name, shutil.which(self.program) or self.program
        where = f"--nnodes 1:2 --nproc-per-node {SLOTS} --rdzv-endpoint n1:29400 --rdzv-id {job}"
        more = (
            f"--rdzv-backend c10d --rdzv-conf last_call_timeout=8 --max-restarts 1 {self.options}"
        )
        words = f"{torchrun} {where} {more} {shlex.join(self._program[2:])} {self.arguments}"
        env = f"DSRUN_JOB_ID={job} TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
        return ["pdsh", "-S", "-R", "ssh", "-w", "n1,n2", f"{env} {words}"]

    def _agent(self, host: str) -> int:
        found = [p for p in self.cluster.processes() if p.host == host and "--rdzv-id" in p.argv]
        return min(p.pid for p in found)

    def runner(self) -> int:
        """The torchrun of the first host."""
        return self._agent("n1")

    def launcher(self) -> int:
        """The torchrun of the second host."""
        return self._agent("n2")

    def workers(self) -> list[int]:
        """The workers on the second host, and not torchrun's own process."""
        above = self._agent("n2")
        return sorted(pid for pid in self.pids("n2") if parent(pid) == above)


class FtLauncherJob(TorchrunJob):
    """A job of ft_launcher, whose ranks send heartbeats."""

    program = "ft_launcher"
    options = (
        "--ignore-missing-fault-tol-cfg --ft-param-initial_rank_heartbeat_timeout 60"
        f" --ft-param-rank_heartbeat_timeout {HANG:g}"
    )
    arguments = "beats"


class SrunJob(OtherJob, SlurmJob):
    """A job of srun in an allocation."""

    def command(self) -> list[str]:
        """The words that start it."""
        own = ["--kill-on-bad-exit=1", f"--ntasks-per-node={SLOTS}", "--nodes=2"]
        return ["srun", *own, *self._program]


FORMS: dict[str, type[PlayedJob]] = {
    "plain": PlayedJob,
    "engine": EngineJob,
    "slurm": SlurmJob,
    "container": ContainerJob,
    "elastic": ElasticJob,
    "roles": RolesJob,
    "hold": HeldJob,
    "detached": DetachedJob,
    "dsrun": DsrunJob,
    "mpirun": MpirunJob,
    "srun": SrunJob,
    "torchrun": TorchrunJob,
    "ft_launcher": FtLauncherJob,
}
"""The kinds of jobs of `rows.WAYS`."""


class Stage:
    """The virtual hosts on which rows are played, each kind up from its first use on."""

    def __init__(self, shared: list[Path]) -> None:
        self._stack = ExitStack()
        self._shared = shared
        self._clusters: dict[str, Cluster] = {}
        self._slurm: Slurm | None = None

    def job(self, row: Row, folder: Path) -> PlayedJob:
        """The job of a row, not yet started."""
        form = (WAYS | OTHERS)[row.way].form
        kind = {"container": "container", "slurm": "slurm", "srun": "slurm"}.get(form, "plain")
        if kind not in self._clusters:
            self._clusters[kind] = self._stack.enter_context(Cluster(2, shared=self._shared))
            self._prepare(kind, self._clusters[kind])
        job = FORMS[form](row, self._clusters[kind], folder)
        job.slurm = self._slurm if kind == "slurm" else None
        return job

    def _prepare(self, kind: str, cluster: Cluster) -> None:
        if kind == "slurm":
            self._slurm = self._stack.enter_context(Slurm(cluster))
        if kind == "container":
            contained.podman([cluster])

    def close(self) -> None:
        """End all hosts."""
        self._stack.close()


def lacking(way: str) -> str:
    """Why jobs cannot be started this way on this machine; "" if they can."""
    missing = [one for one in (WAYS | OTHERS)[way].programs if shutil.which(one) is None]
    return f"not installed here: {', '.join(missing)}" if missing else ""
