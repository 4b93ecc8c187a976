"""What each worker is bound to, according to the kernel."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.cpu_list import format_cpus
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control.messages import WorkerBinding
from dsrun.launcher.features.binding.node_observed_affinity import (
    INTERVAL,
    PATIENCE,
    AffinityWatch,
    allowed,
    placed,
)
from dsrun.launcher.node.workers.spawn import Process, spawn

from ...support.bindings import numactl
from ...support.clock import Clock
from ...support.specs import shell

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["numactl"]


CPUS = os.sched_getaffinity(0)


def test_what_the_kernel_says_goes_to_each_in_turn() -> None:
    workers = [WorkerBinding(rank, 100 + rank, f"{rank}", "", None, nic="x") for rank in (0, 1)]
    rows = placed(workers, [("0", "1"), ("", "")])
    assert [(row.rank, row.cpus, row.memory) for row in rows] == [(0, "0", "1"), (1, "", "")]
    assert [row.nic for row in rows] == ["x", "x"], "what was known before is kept"


def test_a_process_stands_where_it_sees_itself() -> None:
    cpus, memory = allowed(os.getpid())
    assert cpus == format_cpus(CPUS)
    assert re.fullmatch(r"[\d,-]+", memory)


def test_a_process_that_is_gone_stands_nowhere() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert allowed(ended.pid) == ("", "")


@pytest.fixture
def waiting(numactl: str) -> Iterator[Process]:
    """A worker that is numactl until it reads from its standard input."""
    process = spawn(
        shell(f"exec {numactl} -c 'echo up; read go; exec cat'")._replace(keep_stdin=True)
    )
    os.set_blocking(process.stdout, True)
    assert os.read(process.stdout, 3) == b"up\n"
    yield process
    os.close(process.stdin)
    os.waitpid(process.pid, 0)
    for fd in (process.stdout, process.stderr):
        os.close(fd)


def test_a_worker_that_ends_while_others_are_on_their_way_is_in_the_report(
    waiting: Process,
) -> None:
    clock, told = Clock(), list[Any]()
    soon = spawn(shell("exec cat")._replace(keep_stdin=True))
    watch = AffinityWatch(clock.loop, [waiting, soon], told.append)
    os.close(soon.stdin)
    _, soon.status = os.waitpid(soon.pid, 0)
    for fd in (soon.stdout, soon.stderr):
        os.close(fd)
    watch.finish()
    assert told[0][1][0] == format_cpus(CPUS)


def test_the_watch_waits_for_the_workers_own_program(waiting: Process) -> None:
    clock, told = Clock(), list[Any]()
    AffinityWatch(clock.loop, [waiting], told.append)
    for _ in range(3):
        clock.go(INTERVAL)
    assert not told
    os.sched_setaffinity(waiting.pid, {min(CPUS)})
    # The program has started once it echoes.
    os.write(waiting.stdin, b"\nx\n")
    assert os.read(waiting.stdout, 2) == b"x\n"
    clock.go(INTERVAL)
    assert told == [[(f"{min(CPUS)}", allowed(os.getpid())[1])]]
    clock.go(PATIENCE)
    assert len(told) == 1


def test_the_watch_has_no_more_patience_than_that(waiting: Process) -> None:
    clock, told = Clock(), list[Any]()
    AffinityWatch(clock.loop, [waiting], told.append)
    clock.go(PATIENCE - INTERVAL)
    assert not told
    clock.go(2 * INTERVAL)
    assert [one[0][0] for one in told] == [format_cpus(CPUS)]


def test_the_watch_tells_at_once_of_what_needs_no_numactl() -> None:
    process, told = spawn(shell("exec true")), list[Any]()
    AffinityWatch(Loop(), [process], told.append)
    os.waitpid(process.pid, 0)
    assert len(told) == 1
    for fd in (process.stdin, process.stdout, process.stderr):
        os.close(fd)
