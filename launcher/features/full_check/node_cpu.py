"""Tests of this node's cores and memory, with the standard library alone."""

from __future__ import annotations

import hashlib
import os
import time
from ctypes import c_char, memmove
from functools import partial
from threading import Barrier, Thread

from ...node.machine.capacity import cpus
from . import node_throttling as throttling
from .measurements import Measured, Measurements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 1 << 20
"""Bytes that are hashed at a time, without holding Python's lock."""

COPIED = 32 << 20
"""Bytes that are copied at a time: more than caches hold."""

COPIERS = 4
"""Threads that copy: each needs twice as much memory as it copies."""

MEGA = 1e6


class _Load:
    """The work of one thread: bytes, and seconds of CPU and of wall time."""

    done = 0
    cpu = wall = 0.0


def compute(seconds: float) -> Measurements:
    """Hash on all usable cores; measure their speed, the time they ran, and the quota."""
    block = os.urandom(BLOCK)
    before = throttling.read()
    cores = len(os.sched_getaffinity(0))
    loads = _run(cores, seconds, lambda: partial(_hash, block))
    periods, throttled = throttling.share(before, throttling.read())
    ran = sum(load.cpu for load in loads) / sum(load.wall for load in loads)
    stops = f"its cgroup's CPU quota was used up in {throttled} of {periods} periods"
    evidence = stops if throttled else ""
    rows = (
        Measured("compute", "cores", _rate(loads) / MEGA, ""),
        Measured("running", "cores", min(100.0, 100 * ran), evidence),
        Measured("quota", "cores", 100 * cpus() / cores, evidence),
    )
    return Measurements(rows, ())


def memory(seconds: float) -> Measurements:
    """Copy blocks of memory on a few cores."""
    count = min(len(os.sched_getaffinity(0)), COPIERS)
    loads = _run(count, seconds, _copier)
    return Measurements((Measured("memory", "cores", _rate(loads) / MEGA, ""),), ())


def _rate(loads: list[_Load]) -> float:
    """Return bytes per second that a core ran: other load on the machine hardly counts."""
    return sum(load.done for load in loads) / sum(load.cpu for load in loads)


def _run(count: int, seconds: float, prepare: Callable[[], Callable[[], int]]) -> list[_Load]:
    """Repeat a step in several threads, which begin together; `prepare` makes a thread's step."""
    loads = [_Load() for _ in range(count)]
    begin = Barrier(count)
    threads = [Thread(target=_work, args=(load, begin, seconds, prepare)) for load in loads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return loads


def _work(
    load: _Load, begin: Barrier, seconds: float, prepare: Callable[[], Callable[[], int]]
) -> None:
    step = prepare()
    begin.wait()
    start, cpu = time.perf_counter(), time.thread_time()
    while not load.done or time.perf_counter() - start < seconds:
        load.done += step()
    load.cpu, load.wall = time.thread_time() - cpu, time.perf_counter() - start


def _hash(block: bytes) -> int:
    return len(block) * bool(hashlib.sha256(block))


def _copier() -> Callable[[], int]:
    source, target = ((c_char * COPIED).from_buffer(bytearray(b"x") * COPIED) for _ in "12")

    def step() -> int:
        memmove(target, source, COPIED)
        return COPIED

    return step
