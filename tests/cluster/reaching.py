"""Small jobs for tests of what lies between dsrun and its hosts, and looks at what they became."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ..support.limits import NEVER, wait_for
from .machines import HOME, lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .hosts import Cluster, Process

SESSIONS = ("ssh", "openssh")
"""Launchers whose own sessions are the control lines."""

REMOTE = (*SESSIONS, "pdsh")
"""Launchers that reach other hosts through their sshd."""

OTHER_SESSION = """\
Host *
 SessionType none
 StdinNull yes
 ForkAfterAuthentication yes
 RequestTTY force
 PermitLocalCommand yes
 LocalCommand sleep 1200
 ControlMaster auto
 ControlPath /run/master-%C
 ControlPersist 1200
 LocalForward 127.0.0.1:7 127.0.0.1:7
 ExitOnForwardFailure yes
 LogLevel QUIET
"""
"""A configuration in which sessions are not those that dsrun needs."""

remote = pytest.mark.parametrize("launcher", REMOTE)
sessions = pytest.mark.parametrize("launcher", SESSIONS)

USAGE, UNUSABLE, LOST = 2, 69, 75
"""Exit codes, as the documentation has them."""

PATIENT = tuple(
    word
    for name in ("connect", "start", "heartbeat")
    for word in (f"--{name}_timeout", f"{NEVER:g}")
)
"""With these options no silence ends a job: what a test sees has another cause."""

HELLO = "import os; print('here is', os.uname().nodename)"
PAUSE = "import signal; print('is up', flush=True); signal.pause()"


def script(folder: Path, text: str, name: str = "train.py") -> str:
    """Write a worker that takes no arguments; returns its path."""
    (folder / name).write_text(text)
    return str(folder / name)


def on(hosts: str, launcher: str, *options: str) -> list[str]:
    """The options of a job with one worker on each of these hosts (`n1 n2`), quick to stop.

    No time that dsrun has for anything passes while a test waits, unless the test says so.
    """
    listed = ",".join(host if ":" in host else f"{host}:1" for host in hosts.split())
    return [*("--launcher", launcher, "--host", listed, "--grace", "1"), *PATIENT, *options]


def workers(cluster: Cluster, script: str, host: str | None = None) -> list[Process]:
    """The running workers of a script, on one host or on all."""
    return [
        process
        for process in cluster.processes()
        if script in process.argv and process.job and host in {None, process.host}
    ]


def gone(cluster: Cluster, script: str, host: str) -> None:
    """Wait until a host has no worker of this script any more."""
    wait_for(lambda: not workers(cluster, script, host), f"the end of workers on {host}")


def find(cluster: Cluster, host: str, which: Callable[[Process], bool]) -> int:
    """The pid of the one process on a host that `which` holds for."""
    (found,) = [p for p in cluster.processes() if p.host == host and which(p)]
    return found.pid


@contextmanager
def file(path: Path, text: str) -> Iterator[Path]:
    """A file with this text is there inside the `with` block, and what was there is back after."""
    before = path.read_bytes() if path.exists() else None
    path.write_text(text)
    try:
        yield path
    finally:
        path.unlink() if before is None else path.write_bytes(before)


@contextmanager
def login_shell(cluster: Cluster, shell: str) -> Iterator[None]:
    """The user has this shell on all machines inside the `with` block."""
    path = cluster.path("/run/etc/passwd")
    rows = [row.split(":") for row in path.read_text().splitlines()]
    changed = [[*row[:-1], shell] if row[2] == str(os.getuid()) else row for row in rows]
    with file(path, lines(map(":".join, changed))):
        yield


@contextmanager
def ssh_file(cluster: Cluster, name: str, text: str) -> Iterator[Path]:
    """A file of the user's `~/.ssh`, private, inside the `with` block."""
    with file(cluster.path(f"{HOME}/.ssh/{name}"), text) as path:
        path.chmod(0o600)
        yield path


def known(cluster: Cluster, names: str) -> str:
    """The text of a `known_hosts` with these machines (`n1 n2`)."""
    lines = [m.known_as() for m in cluster.machines if m.name in names.split()]
    return "".join(f"{line}\n" for line in lines)
