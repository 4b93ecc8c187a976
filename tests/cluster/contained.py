"""Container runtimes on real hosts, and what is found of a job in their containers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from .machines import Temporary, first_descendant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .hosts import Cluster
    from .machines import Machine

WORKER = """
import json, os, signal, sys, time
rank = os.environ["RANK"]
told = {"rank": rank, "pid": os.getpid(), "parent": os.getppid(), "folder": os.getcwd(),
        "home": os.environ["HOME"], "path": os.environ["PATH"], "given": os.environ.get("GIVEN"),
        "host": os.uname().nodename, "uid": os.getuid(), "argv": sys.argv[2:],
        "groups": os.getgroups(), "inside": os.path.exists("/inside"),
        "library": os.environ.get("LD_LIBRARY_PATH"),
        "names": sorted(name for name in os.environ if name.startswith(("DSRUN_C", "LEAK")))}
print(json.dumps(told), flush=True)
made = f"made-{os.environ['DSRUN_JOB_ID']}-"
with open(made + rank, "w") as file:
    file.write("x")  # rank 0 has printed by then
if sys.argv[1] == "wait":
    while True:
        time.sleep(60)
while not os.path.exists(made + "0"):
    time.sleep(0.02)
sys.exit(int(sys.argv[1]) if rank == "1" else 0)
"""
"""It tells what it sees, and ends with the code of its first argument as rank 1, or waits."""

CONFIGURATION = """
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
"""

STORAGE = """
[storage]
driver = "overlay"
graphroot = "/dev/shm/podman/storage"
runroot = "/dev/shm/podman/run"
"""


@dataclass(frozen=True)
class Runtime:
    """A container runtime that hosts have.

    Attributes:
        name: its client.
        job: words of dsrun for a container with this machine's `/usr`.
        other: words of the client for such a container that is not of a job.
        monitor: the program that stays with each container.
    """

    name: str
    job: tuple[str, ...]
    other: tuple[str, ...]
    monitor: str

    def __call__(self, host: Machine, *words: str) -> str:
        """The output of the client on a host."""
        return host.run([self.name, *words]).stdout

    def containers(self, host: Machine) -> list[str]:
        """The containers of a host, whatever state they are in."""
        return self(host, "ps", "--all", "--quiet").split()

    def start(self, host: Machine, *options: str) -> str:
        """Start a container that is not of a job; return its id."""
        made = self(host, "run", "--detach", *options, *self.other, "sleep", "600").strip()
        assert made, f"no {self.name} container on {host.name}"
        return made

    def remove(self, host: Machine, container: str) -> None:
        """Remove a container by its id or name."""
        self(host, "kill", container)
        self(host, "rm", "--force", container)

    def gone(self, cluster: Cluster) -> None:
        """Wait until the first two hosts have no container, nor a process of one or its client."""
        words = ("t.py", "--stdio", self.monitor, "run")
        for host in cluster.hosts[:2]:
            wait_for(lambda host=host: not self.containers(host), "no container")  # type: ignore[misc]
            wait_for(lambda host=host: not processes(host, *words), "no process")  # type: ignore[misc]


LIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096")
"""What podman needs where it may not raise a limit."""

PODMAN = Runtime(
    "podman",
    ("--container", "podman:/:O"),
    ("--network=host", *LIMITS, "--rootfs", "/:O"),
    "conmon",
)
"""Its containers see a copy of this machine's own files, which they may change."""

DOCKER = Runtime(
    "docker",
    ("--container", "docker:job", "--mount", "/usr:ro"),
    ("--network=host", "--mount=type=bind,source=/usr,target=/usr,readonly", "job"),
    "containerd-shim-runc-v2",
)
"""Its image has links to a `/usr` that is mounted, and hardly anything else."""


def podman(clusters: Iterable[Cluster]) -> None:
    """Have podman on all hosts, with images and containers of its own."""
    for cluster in clusters:
        folder = cluster.path("/run/etc/containers")
        folder.mkdir(exist_ok=True)
        (folder / "containers.conf").write_text(CONFIGURATION)
        (folder / "storage.conf").write_text(STORAGE)
        (folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        for host in cluster.hosts:
            host.run(["podman", "ps"])  # it makes files of its own


def need_containers(runtime: Runtime, host: Machine) -> None:
    """Skip the test where a runtime can run nothing."""
    tried = host.run([runtime.name, "run", "--rm", *runtime.other, "true"])
    if tried.returncode:
        pytest.skip(f"{runtime.name} can run nothing here: {tried.stderr.strip()[-200:]}")


CONTROL_GROUP = f"dsrun-test-{os.getpid()}"
"""The parent of the control groups of containers; another process of tests removes its own."""

SOCKET = "docker.sock"
PLACE = "/dev/shm/docker"
"""The folder of a daemon; each host has its own `/dev/shm`."""

OPTIONS = (
    *("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"),
    *("--ip-masq=false", "--storage-driver=overlay2", "--exec-opt=native.cgroupdriver=cgroupfs"),
    *(f"--data-root={PLACE}/data", f"--exec-root={PLACE}/exec", f"--pidfile={PLACE}/pid"),
    f"--host=unix://{PLACE}/{SOCKET}",
)
"""A daemon that leaves the network and systemd alone."""


class Daemon(Temporary):
    """Docker's daemon on a host.

    Args:
        host: the host.
        group: the group that may use it.
    """

    def __init__(self, host: Machine, group: int = 0) -> None:
        self._host = host
        self._options = (*OPTIONS, f"--group={group}")
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> None:
        self._host.run(["mkdir", "-p", PLACE])
        log = self._host.root / PLACE[1:] / "log"
        with log.open("a") as file:
            self._process = self._host.popen(
                ["dockerd", *self._options, f"--cgroup-parent=/{CONTROL_GROUP}"],
                stdout=file,
                stderr=file,
            )
        wait_for(lambda: self._is_up(log), f"docker's daemon on {self._host.name}")

    def _is_up(self, log: Path) -> bool:
        if self._process and self._process.poll() is not None:
            pytest.skip(f"docker's daemon does not run here: {log.read_text()[-300:]}")
        return not self._host.run(["docker", "version"]).returncode

    def kill(self) -> None:
        """Kill it, as the kernel does where memory is short; its containers run on."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        assert self._process
        os.kill(first_descendant(self._process.pid, 1), number)  # it is a child of nsenter's
        self._process.wait()

    def restart(self) -> None:
        """Have it up again."""
        (self._host.root / PLACE[1:] / "pid").unlink(missing_ok=True)
        self._start()

    def close(self) -> None:
        """End it, its containers, and their control groups."""
        if self._process and self._process.poll() is None:
            for container in DOCKER.containers(self._host):
                DOCKER(self._host, "rm", "--force", container)
            self._end(signal.SIGTERM)
        for folder in Path("/sys/fs/cgroup").glob(f"**/{CONTROL_GROUP}"):
            with suppress(OSError):
                folder.rmdir()


def load_image(cluster: Cluster, folder: Path) -> None:
    """Have the same image on the first two hosts, where daemons run, or skip the test."""
    made, saved = folder / "job.tar", folder / "job.image"
    (folder / "passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (folder / "nsswitch.conf").write_text("hosts: files\n")
    with tarfile.open(made, "w") as file:
        for name in ("bin", "lib", "lib64", "sbin"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            file.addfile(link)
        for name, mode in (("usr", 0o755), ("root", 0o700), ("tmp", 0o1777)):
            there = tarfile.TarInfo(name)
            there.type, there.mode = tarfile.DIRTYPE, mode
            file.addfile(there)
        for name in ("passwd", "nsswitch.conf"):
            file.add(folder / name, f"etc/{name}")
    one, other = cluster.hosts[:2]
    DOCKER(one, "import", str(made), "job")
    DOCKER(one, "save", "--output", str(saved), "job")
    DOCKER(other, "load", "--input", str(saved))
    need_containers(DOCKER, one)


def told(output: str) -> list[dict[str, object]]:
    """What each worker has told, in the order of the ranks."""
    found = [json.loads(line[line.index("{") :]) for line in output.splitlines() if "{" in line]
    return sorted(found, key=lambda one: str(one["rank"]))


def processes(host: Machine, *words: str) -> list[int]:
    """The processes, as the real machine counts, that share the network of a host and have a word.

    It is a word of the command line, or the name of a program.
    """
    network, found = Path(host.network).readlink(), []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):  # noqa: PTH208
        with suppress(OSError):
            if Path(f"/proc/{pid}/ns/net").readlink() == network:
                argv = line(pid).split("\0")
                if any(one in words for word in argv for one in (word, Path(word).name)):
                    found.append(pid)
    return sorted(found)


def line(pid: int) -> str:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


def guard(host: Machine) -> int:
    """The first process of dsrun in the container on a host."""
    inside = [pid for pid in processes(host, "--stdio") if line(pid).startswith("python3")]
    return min(inside, key=started)


def node_launcher(host: Machine) -> int:
    """The node launcher in the container on a host, the guard's child."""
    first = guard(host)
    return int(Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])


def client(host: Machine) -> int:
    """The client of the runtime."""
    return processes(host, "--interactive")[0]


def started(pid: int) -> int:
    """When a process was started (proc(5))."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
