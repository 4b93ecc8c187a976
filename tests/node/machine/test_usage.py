"""What workers and this machine use, as /proc has it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from dsrun.launcher.node.machine import usage

if TYPE_CHECKING:
    from pathlib import Path

BUSY = """
import os, sys, time
block = bytearray(64 << 20)
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
end = time.process_time() + 0.2
while time.process_time() < end: pass
print(flush=True)
sys.stdin.read()
"""
"""Holds memory, has used CPU time, and has a child."""


def test_a_worker_is_measured_with_its_descendants() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=pipe, stdout=pipe) as child:
        assert child.stdout
        child.stdout.readline()
        before = time.monotonic()
        found = usage.usage([(5, child.pid)])
        child.kill()
    (row,) = found.ranks
    assert (row.rank, row.pid, row.processes) == (5, child.pid, 2)
    assert row.state in set("RS")
    assert 0.2 <= row.cpu < 10
    assert row.memory > 64 << 20
    assert found.cores == os.cpu_count()
    assert found.clock >= before
    assert found.load >= 0
    assert 0 < found.used < found.total
    assert found.devices == ()


def test_a_worker_that_has_gone_has_a_row() -> None:
    (row,) = usage.usage([(1, 1 << 30)]).ranks
    assert row == (1, 1 << 30, "", 0.0, 0, 0)


def test_a_worker_that_was_not_reaped_is_shown_as_a_zombie() -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        (row,) = usage.usage([(0, child.pid)]).ranks
    assert (row.state, row.memory, row.processes) == ("Z", 0, 1)


def test_other_processes_do_not_count() -> None:
    with subprocess.Popen(["sleep", "600"]) as worker, subprocess.Popen(["sleep", "600"]) as other:
        rows = usage.usage([(0, worker.pid), (1, other.pid)]).ranks
        worker.kill()
        other.kill()
    assert [row.processes for row in rows] == [1, 1]


def test_memory_is_zero_where_it_cannot_be_read(tmp_path: Path) -> None:
    assert usage.memory(str(tmp_path / "none")) == (0, 0)
    few = tmp_path / "meminfo"
    few.write_text("MemTotal:  100 kB\nMemFree:  1 kB\nMemAvailable:  60 kB\nHugePages: 0\n")
    assert usage.memory(str(few)) == (100 * 1024, 40 * 1024)
