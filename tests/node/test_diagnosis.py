"""What a machine knows about why a worker died."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from dsrun.launcher.node import diagnosis


def test_the_kernel_counts_whom_it_kills_for_want_of_memory() -> None:
    def counted() -> int:
        counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return int(counts.get("oom_kill", 0))

    before = counted()
    assert before <= diagnosis.out_of_memory_kills() <= counted()


def test_a_kill_by_the_kernel_is_named() -> None:
    before = diagnosis.out_of_memory_kills() - 2
    found = diagnosis.hint(signal.SIGKILL, before)
    assert found == "out of memory: the kernel's OOM killer was active here (oom_kill +2)"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_without_a_cause_nothing_is_said(number: int) -> None:
    assert diagnosis.hint(number, diagnosis.out_of_memory_kills()) == ""


def test_another_signal_is_not_the_killers() -> None:
    assert diagnosis.hint(signal.SIGSEGV, diagnosis.out_of_memory_kills() - 1) == ""


def test_a_bus_error_is_told_of_where_shared_memory_is_full() -> None:
    full = diagnosis.shared_memory_full()
    assert diagnosis.hint(signal.SIGBUS, 0) == ("/dev/shm is full" if full else "")


class Space(NamedTuple):
    """The result of statvfs(3)."""

    f_blocks: int
    f_bavail: int


@pytest.mark.parametrize(
    ("blocks", "left", "full"),
    [(1000, 0, True), (1000, 9, True), (1000, 10, False), (1000, 1000, False), (0, 0, False)],
)
def test_less_than_a_hundredth_left_is_full(
    monkeypatch: pytest.MonkeyPatch, blocks: int, left: int, full: bool
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _path: Space(blocks, left))
    assert diagnosis.shared_memory_full() is full
    assert diagnosis.hint(signal.SIGBUS, 0) == ("/dev/shm is full" if full else "")


def test_without_shared_memory_it_is_not_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_path: str) -> Space:
        raise FileNotFoundError

    monkeypatch.setattr(os, "statvfs", missing)
    assert not diagnosis.shared_memory_full()
