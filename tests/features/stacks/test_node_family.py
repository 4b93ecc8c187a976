"""The processes of a worker, as the kernel has them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dsrun.launcher.features.stacks.node_family import Member, families, status

from ...support.limits import wait_for

READY = "import os, signal; os.write(1, b'r'); signal.pause()"


def family(pid: int, *, children: bool = True) -> list[Member]:
    return families([(3, pid)], children=children)


def test_a_worker_comes_before_its_children() -> None:
    code = f"import os; os.fork(); {READY}"
    with subprocess.Popen([sys.executable, "-ISc", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        while len(parent.stdout.read(1)) and len(family(parent.pid)) < 2:
            pass
        wait_for(lambda: all("pause" in one.waits_in for one in family(parent.pid)), "both pauses")
        worker, child = family(parent.pid)
        assert (worker.rank, worker.pid, worker.parent) == (3, parent.pid, os.getpid())
        assert (child.parent, child.python, child.tracer) == (parent.pid, True, 0)
        assert worker.command.startswith(f"{sys.executable} -ISc import os")
        assert family(parent.pid, children=False) == [worker]
        os.kill(child.pid, 9)
        parent.kill()


def test_another_program_is_no_python() -> None:
    with subprocess.Popen(["sleep", "600"]) as sleeping:
        (row,) = family(sleeping.pid)
        assert not row.python
        sleeping.kill()


def test_what_has_ended_is_a_zombie_or_left_out() -> None:
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert [row.state for row in family(ended.pid)] == ["Z"]
    assert family(ended.pid) == []
    with pytest.raises(FileNotFoundError):
        status(ended.pid)
