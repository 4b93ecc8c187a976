"""Which signals a process has changed; real ones, of this process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsrun.launcher.common import signals

ONE = signal.SIGUSR2


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    before = signal.signal(ONE, signal.SIG_DFL)
    yield
    signal.signal(ONE, before)


def test_a_signal_that_is_caught_is_changed() -> None:
    assert ONE not in signals.changed()
    signal.signal(ONE, lambda _number, _frame: None)
    assert ONE in signals.changed()
    assert ONE in signals.changed(ignored=False)


def test_a_signal_that_is_ignored_is_changed_unless_these_are_left_out() -> None:
    signal.signal(ONE, signal.SIG_IGN)
    assert ONE in signals.changed()
    assert ONE not in signals.changed(ignored=False)


def test_what_is_changed_is_what_python_says() -> None:
    ours = {n for n in signal.valid_signals() if signal.getsignal(n) not in {signal.SIG_DFL, None}}
    assert ours <= {*signals.changed()}


def test_where_the_kernel_does_not_say_it_may_be_any(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\n")
    every = {*signal.valid_signals()} - {32, 33}
    assert every <= {*signals.changed(status=os.fspath(status))}
