"""An import gets on, or hangs."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from dsrun.launcher.node.preload.progress import MOST, STILL, Progress, activity


def test_who_does_nothing_is_given_up() -> None:
    counted = Progress(lambda: 7)
    assert [counted.check() for _ in range(STILL)] == [""] * STILL
    assert counted.check() == "no progress for 10 s"


def test_progress_is_awaited_but_not_for_ever() -> None:
    counter = itertools.count()
    counted = Progress(lambda: next(counter) // STILL)
    checks = [counted.check() for _ in range(MOST)]
    assert checks == [*[""] * (MOST - 1), "not done after 120 s"]


def test_work_and_reading_are_progress() -> None:
    before = activity(os.getpid())
    assert len(before) > 2
    sum(range(2_000_000))
    Path("/proc/self/status").read_text()
    assert activity(os.getpid()) != before


def test_a_process_that_is_gone_does_nothing() -> None:
    assert activity(1 << 30) == ()
