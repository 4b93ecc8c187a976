"""A search that takes too long is interrupted."""

from __future__ import annotations

import re
import signal

import pytest

from dsrun.launcher.features.watch.runner_time_limit import TimeLimit, TooSlow


def test_an_endless_search_is_interrupted_and_the_next_one_is_not() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    limit = TimeLimit(0.02)
    with pytest.raises(TooSlow):
        limit.call(lambda: re.search(rb"(a+)+$", b"a" * 60 + b"b"))
    assert limit.call(lambda: 7) == 7
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_what_a_function_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        TimeLimit(1.0).call(lambda: 1 / 0)
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
