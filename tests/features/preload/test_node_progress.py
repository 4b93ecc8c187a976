"""An import gets on, or hangs."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from dsrun.launcher.features.preload.node_progress import (
    MOST,
    STILL,
    PreloadProgress,
    ProcessActivity,
    activity,
)


def test_who_does_nothing_is_given_up() -> None:
    counted = PreloadProgress(lambda: ProcessActivity(7.0, ("3",)))
    assert [counted.check() for _ in range(STILL)] == [""] * STILL
    assert counted.check() == "the import made no progress for 10 s"


def test_who_polls_does_nothing() -> None:
    counter = itertools.count()
    counted = PreloadProgress(lambda: ProcessActivity(next(counter) * 0.009))
    checks = [counted.check() for _ in range(STILL + 1)]
    assert checks == [*[""] * STILL, "the import made no progress for 10 s"]


def test_little_is_progress_if_it_adds_up() -> None:
    counter = itertools.count()
    counted = PreloadProgress(lambda: ProcessActivity(next(counter) * 0.011))
    assert {counted.check() for _ in range(MOST - 1)} == {""}


def test_reading_is_progress_but_not_for_ever() -> None:
    counter = itertools.count()
    counted = PreloadProgress(lambda: ProcessActivity(0.0, (str(next(counter) // STILL),)))
    checks = [counted.check() for _ in range(MOST)]
    assert checks == [*[""] * (MOST - 1), "the import took longer than 120 s"]


def test_the_kernel_counts_both() -> None:
    before = activity(os.getpid())
    while activity(os.getpid()).seconds == before.seconds:
        sum(range(100_000))
    Path("/proc/self/status").read_text()
    after = activity(os.getpid())
    assert after.seconds > before.seconds
    assert after.reads != before.reads


def test_a_process_that_is_gone_does_nothing() -> None:
    assert activity(1 << 30) == ProcessActivity(0.0, ("0",))
