"""Held nodes on a cluster: dsrun-hold at the login, and jobs on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsrun.launcher.control import local

from ..support.limits import NEVER, wait_for
from .command import CHECKOUT, Running
from .jobs import AT_ONCE, launchers, options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .hosts import Cluster

HOLD = (sys.executable, str(CHECKOUT / "bin" / "dsrun-hold"))

TELL = """
import json, os, sys
names = "RANK WORLD_SIZE LOCAL_RANK MASTER_PORT DSRUN_JOB_ID".split()
print(json.dumps({"host": os.uname().nodename, "argv": sys.argv[1:], "pid": os.getpid(),
                  "folder": os.getcwd(), "given": os.environ.get("GIVEN", ""),
                  **{name: os.environ[name] for name in names}}), flush=True)
"""

WAIT = """
import os, signal, sys
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda got, _: os._exit(0))
print("is up", os.getpid(), flush=True)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
while not os.path.exists(sys.argv[1]):
    signal.pause()
signal.setitimer(signal.ITIMER_REAL, 0)
"""


class Held:
    """A hold at the login: `with Held(...) as held`; at the end it is killed if it still runs.

    Silence ends it, or loses a node, only if the words say so.

    Attributes:
        name: of the hold.
        running: dsrun-hold.
    """

    def __init__(
        self, cluster: Cluster, folder: Path, hosts: str, *words: str, launcher: str = "ssh"
    ) -> None:
        self.name = f"h{os.urandom(3).hex()}"
        self._cluster = cluster
        self._folder = folder
        self._clients: list[Running] = []
        for name, text in (("tell.py", TELL), ("wait.py", WAIT)):
            (folder / name).write_text(text)
        where = [*options(launcher), *(["--host", hosts] if hosts else [])]
        self._argv = [*HOLD, "--name", self.name, *where, *AT_ONCE, *words]

    def __enter__(self) -> Held:
        self.running = Running(self._cluster.login.popen(self._argv, cwd=self._folder, text=False))
        try:
            self.running.wait_for_output("holding .* nodes? with")
        except BaseException:
            self.running.kill()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for client in self._clients:
            client.kill()
        self.running.kill()

    def start(self, *words: str, **more: Any) -> Running:
        """Start `dsrun --on` with these words."""
        argv = [
            sys.executable,
            str(CHECKOUT / "bin" / "dsrun"),
            f"--on={self.name}",
            "--no_local_rank",
            "--grace",
            f"{NEVER:g}",
            *words,
        ]
        process = self._cluster.login.popen(argv, **{"cwd": self._folder, "text": False, **more})
        self._clients.append(Running(process))
        return self._clients[-1]

    def __call__(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run `dsrun --on` with these words to its end."""
        return self.start(*words, **more).wait()

    def tell(self, *words: str, **more: Any) -> list[dict[str, Any]]:
        """Run workers that tell of themselves; return what they do, by rank."""
        ended = self(*words, **more)
        assert ended.returncode == 0, ended.stderr
        lines = [line.partition("| ")[2] for line in ended.stdout.splitlines()]
        told = [json.loads(line) for line in lines if line.startswith("{")]
        return sorted(told, key=lambda one: int(one["RANK"]))

    def wait_up(self, client: Running, workers: int) -> None:
        """Wait until so many workers of a run of wait.py are up."""
        wait_for(lambda: client.stdout.count("is up") == workers, f"{workers} workers")

    def release(self) -> subprocess.CompletedProcess[str]:
        """Release the nodes, and return how the hold ended."""
        released = self._cluster.login.run(self.release_command())
        assert released.returncode == 0, released.stderr
        return self.running.wait()

    def release_command(self) -> list[str]:
        """Return the command that releases it."""
        return [*HOLD, "--release", self.name]

    def launchers(self, host: str) -> tuple[int, int]:
        """Return the pids of the guard and of the node launcher on a host, the first of several."""
        return launchers(self._cluster, host)[0]

    def workers(self) -> list[int]:
        """Return the pids of all workers."""
        found = self._cluster.processes()
        return [p.pid for p in found if {"tell.py", "wait.py"} & {*p.argv} and p.host != "login"]

    @property
    def address(self) -> str:
        """The address of its socket."""
        return local.address(local.HOLD, self.name)

    def size(self) -> tuple[int, int, int]:
        """Return its threads, descriptors and resident memory in KiB."""
        pid = self.running.pid
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in status)
        fds = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return int(fields["Threads"]), fds, int(fields["VmRSS"].split()[0])


def descriptors(pids: Sequence[int]) -> list[int]:
    """Return how many descriptors each of these processes has open."""
    return [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids]
