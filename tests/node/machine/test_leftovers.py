"""Processes of jobs that have ended, found by the node launcher in their environment."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import system
from dsrun.launcher.node.machine import leftovers, processes

from ...support.launcher_name import NAME
from ...support.local_control import NOBODY, needs_root

if TYPE_CHECKING:
    from collections.abc import Iterator

GONE = "999999999:5"
"""A process that is gone."""


def alive() -> str:
    """This process, as others are named in the variable."""
    return leftovers.identity(os.getpid())


@contextmanager
def started(owners: str, *before: str) -> Iterator[int]:
    """Start a process with this variable, by the command `before`; yield its pid."""
    # Its environment can be read once it runs, shortly after its start.
    argv = [*before, "sh", "-c", "echo; read -r _"]
    environ, pipe = {"PATH": os.environ["PATH"], NAME: owners}, subprocess.PIPE
    # As every worker it has a session of its own.
    with subprocess.Popen(
        argv, env=environ, stdin=pipe, stdout=pipe, start_new_session=True
    ) as child:
        assert child.stdout
        child.stdout.readline()
        yield child.pid
        child.kill()


def is_found(pid: int) -> bool:
    return pid in leftovers.leftovers()


@pytest.mark.parametrize(
    ("owners", "left"),
    [
        ("1:0", True),
        (GONE, True),
        (f"{GONE},{GONE}", True),
        ("{alive}", False),
        # The guard of a node launcher that was killed is just ending what is below it.
        (f"{GONE},{{alive}}", False),
        # A node launcher ends with its guard, or is stuck.
        (f"{{other}},{GONE}", True),
        # This process, whose own guard is gone, has not ended yet.
        (f"{{alive}},{GONE}", False),
        ("none", False),
        ("1", False),
        (f"{GONE},x", False),
        (f"{'9' * 5000}:1", False),
        (f"1:{'9' * 5000}", False),
        (f"{'9' * 10}:1", False),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_a_dead_job_has_left_is_found(owners: str, left: bool) -> None:
    other = leftovers.identity(os.getppid())
    with started(owners.format(alive=alive(), other=other)) as pid:
        assert is_found(pid) is left


@needs_root
@pytest.mark.parametrize("owners", [GONE, f"{'9' * 5000}:1"], ids=["gone", "nines"])
def test_what_other_users_have_in_their_environment_does_not_count(owners: str) -> None:
    """Anybody can start a process with this variable."""
    with started(owners, "setpriv", f"--reuid={NOBODY}", "--clear-groups") as pid:
        assert not is_found(pid)
        assert leftovers.variable(pid, NAME.encode()) == b""


def test_what_ends_meanwhile_is_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node launcher ends after its workers, one of which was just read."""
    with started(GONE) as pid:

        def end_before(asked: int) -> int:
            if asked == int(GONE.partition(":")[0]):
                os.kill(pid, 9)
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            return begun(asked)

        begun = processes.started
        monkeypatch.setattr(processes, "started", end_before)
        assert not is_found(pid)


TELLS = f"""
import os
from dsrun.launcher.node.machine import leftovers
leftovers.LAUNCHER = {NAME.encode()!r}
ours = [os.getpid(), os.getppid(), int(os.environ["BESIDE"])]
print(*map(leftovers.owners_of, ours))
found = leftovers.leftovers()
print(*(pid for pid in ours if pid in found))
"""


def test_who_looks_is_not_left_with_all_above_it() -> None:
    """A job that a worker has submitted as a batch job has the environment of that worker.

    So have the other commands of its script.
    """
    script = 'sleep 600 & export BESIDE=$!; "$@"; kill $BESIDE'
    environ = {**os.environ, NAME: GONE}
    # As a node launcher does, it has a session of its own.
    argv = ["sh", "-c", script, "sh", "setsid", "--wait", sys.executable, "-c", TELLS]
    done = subprocess.run(
        argv, env=environ, capture_output=True, text=True, check=True, start_new_session=True
    )
    owner = [(999999999, 5)]
    assert done.stdout == f"{owner} {owner} {owner}\n\n"


def test_who_counts_pids_otherwise_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the same number is another process."""
    namespaces = {"/proc/self/ns/pid": "pid:[1]"}
    monkeypatch.setattr(system, "readlink", lambda path: namespaces.get(path, "pid:[2]"))
    with started("1:0") as pid:
        assert not is_found(pid)


def test_a_process_of_which_nothing_can_be_read_is_not_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbid(_path: str) -> str:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(system, "readlink", forbid)
        assert not leftovers.numbered_as_here(1)
    assert leftovers.numbered_as_here(os.getpid())
