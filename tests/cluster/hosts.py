"""Real hosts on one machine, each with its own network, processes, `/tmp` and sshd.

::

    login ---+
    n1    ---+--- switch         login: where a person would type `dsrun`
    n2    ---+                   n1, n2: where the workers run

Every host is a set of Linux namespaces, and all of them live in the process namespace of one small
process, the supply, which ends when its standard input does: however the owner dies, no host
outlives it. The machine's own network and files are not touched: the switch has a network namespace
of its own (so clusters may use the same addresses), and keys, configuration and the user's home lie
in a `tmpfs` that only the cluster sees.

Without pytest, ``python tests/cluster/hosts.py --hosts 4 -- COMMAND...`` runs a command at the
login while a cluster is up (a shell, if there is no command), with its hostfile in `/run/hostfile`;
with ``--slurm``, Slurm runs on it.
"""

from __future__ import annotations

import argparse
import os
import pwd
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":  # a script has no package to find its neighbours in
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    __package__ = "tests.cluster"

from ..support.limits import wait_for
from .machines import (
    BLACKHOLE,
    HOME,
    TOOLS,
    UNREACHABLE,
    Host,
    Machine,
    Supply,
    Temporary,
    lines,
    user_environment,
)
from .slurm import Slurm

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True)
class Process:
    """A process somewhere in the cluster.

    Attributes:
        pid: its number on the real machine.
        host: the name of the machine that it is on.
        job: the `DSRUN_JOB_ID` that it was started with, or "".
        argv: its command line.
    """

    pid: int
    host: str
    job: str
    argv: tuple[str, ...]

    @classmethod
    def read(cls, pid: int, host: str) -> Process:
        """What its folder in `/proc` says of it.

        Raises:
            OSError: the process is over.
        """
        argv = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).rstrip("\0").split("\0")
        variables = b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
        job = variables.partition(b"\0DSRUN_JOB_ID=")[2].partition(b"\0")[0]
        return cls(pid, host, os.fsdecode(job), tuple(argv))


class Cluster(Temporary):
    """A login and hosts named `n1`, `n2`, ...; all are up inside the `with` block.

    Args:
        hosts: how many.
        prefix: what their names begin with.
        shared: absolute folders that every machine shall see at the same place, as they see all
            of the real machine's but `/tmp`, `/dev/shm` and `/run`.

    Attributes:
        login: the machine at which a person types commands.
        hosts: the hosts, in order.
        machines: the login and the hosts.
        supply: what they hang from.
    """

    def __init__(self, hosts: int = 4, prefix: str = "n", shared: Iterable[Path] = ()) -> None:
        self.supply = Supply(shared)
        self.login = Machine(self.supply, "login", 1)
        numbers = range(1, hosts + 1)
        self.hosts = tuple(Host(self.supply, f"{prefix}{i}", 256 + i) for i in numbers)
        self.machines = (self.login, *self.hosts)

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts' names, in order."""
        return tuple(host.name for host in self.hosts)

    def host(self, name: str) -> Host:
        """The host of this name."""
        return self.hosts[self.names.index(name)]

    def hostfile(self, slots: int = 1) -> str:
        """The text of a hostfile with all hosts, so many slots each."""
        return lines(f"{name} slots={slots}" for name in self.names)

    def path(self, path: str) -> Path:
        """Where the real machine finds a file below `/run`, which all in the cluster share."""
        return self.supply.path(path)

    def switch(self, *tasks: str) -> None:
        """Have `ip` do these at the switch, a name that hosts can give a cable's other end to."""
        self.supply.ip(*tasks)

    def processes(self, job: str | None = None) -> list[Process]:
        """All processes on all machines, or those that this `DSRUN_JOB_ID` was given to."""
        names = {machine.namespace: machine.name for machine in self.machines if machine.pid}
        found = []
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):  # noqa: PTH208
            with suppress(OSError):
                known = namespaces(pid) & names.keys()
                found += [Process.read(pid, names[namespace]) for namespace in known]
        return [process for process in found if job in (None, process.job)]

    def close(self) -> None:
        """End everything; nothing is left of the cluster, nor of what was started in it."""
        self.supply.close()
        for machine in self.machines:
            machine.wait_off()

    def _start(self) -> None:
        for name, content in self._etc().items():
            self.path(f"/run/etc/{name}").write_text(lines(content))
        for machine in self.machines:
            machine.boot()
        for machine in self.machines:
            wait_for(machine.is_up, f"{machine.name} to boot")
        self.supply.ip(*[machine.join() for machine in self.machines])
        self._introduce()

    def _etc(self) -> dict[str, Iterable[str]]:
        return {
            "hosts": self._addresses(),
            "nsswitch.conf": ["passwd: files", "group: files", "hosts: files"],
            "passwd": self._users(),
            # A root account that is locked, as distributions often have it, could not log in.
            "shadow": [f"{user.pw_name}:*:::::::" for user in pwd.getpwall()],
        }

    def _addresses(self) -> Iterator[str]:
        yield "127.0.0.1 localhost"
        yield f"{BLACKHOLE} blackhole"
        yield f"{UNREACHABLE} unreachable"
        yield from (f"{m.address} {m.name} {m.name}.cluster" for m in self.machines)

    def _users(self) -> Iterator[str]:
        # Not HOME but this file tells OpenSSH where the user's keys and start-up files are.
        for user in pwd.getpwall():
            home = HOME if user.pw_uid == os.getuid() else user.pw_dir
            ids = f"{user.pw_uid}:{user.pw_gid}"
            yield f"{user.pw_name}:x:{ids}:{user.pw_gecos}:{home}:{user.pw_shell}"

    def _introduce(self) -> None:
        known_hosts = f"{HOME}/.ssh/known_hosts"
        self.path(known_hosts).write_text(lines(machine.known_as() for machine in self.machines))
        self.supply.run("ssh-keygen", "-q", "-H", "-f", known_hosts)
        self.path(f"{known_hosts}.old").unlink()


def namespaces(pid: int) -> set[str]:
    """What a process may have in common with a machine.

    Raises:
        OSError: the process is over.
    """
    return {os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("net", "pid")}  # noqa: PTH115


def _lacking() -> str:
    """Return why this machine cannot have virtual hosts, "" if it seems that it can."""
    tools = ("sshd", "ssh", "ssh-keygen", "ip", "unshare", "nsenter")
    missing = [one for one in tools if shutil.which(one, path=TOOLS["PATH"]) is None]
    if missing:
        return f"{', '.join(missing)} not found; apt install openssh-server iproute2 util-linux"
    return "virtual hosts need root" if os.geteuid() else ""


def main() -> int:
    """Run a command at the login of a cluster; the exit code is the command's."""
    parser = argparse.ArgumentParser(description="Run a command while a virtual cluster is up.")
    parser.add_argument("--hosts", type=int, default=4, help="how many hosts (default: 4)")
    parser.add_argument("--prefix", default="n", help="what their names begin with (default: n)")
    parser.add_argument("--slots", type=int, default=1, help="slots a host in /run/hostfile")
    parser.add_argument("--slurm", action="store_true", help="with Slurm on them")
    parser.add_argument("command", nargs="*", default=["bash"], help="after `--` (default: bash)")
    options = parser.parse_args()
    if lacking := _lacking():
        parser.error(lacking)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(options.hosts, options.prefix, [Path.cwd()]))
        cluster.path("/run/hostfile").write_text(cluster.hostfile(options.slots))
        if options.slurm:
            stack.enter_context(Slurm(cluster))
        signal.signal(signal.SIGINT, lambda *_: None)  # ctrl-C is for the command
        command = cluster.login.argv(options.command, Path.cwd())
        code = subprocess.run(command, env=user_environment(), check=False).returncode
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
