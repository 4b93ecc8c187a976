"""What is done beside the loop: in order, in a thread, and to its end."""

from __future__ import annotations

import threading

import pytest

from dsrun.launcher.common.in_thread import in_thread
from dsrun.launcher.common.loop import Loop

from ..support.limits import HANG, wait_for


def test_it_is_done_in_order_while_the_loop_goes_on() -> None:
    loop, done, go = Loop(), list[object](), threading.Event()

    def work() -> None:
        assert go.wait(HANG)
        done.append(threading.current_thread() is threading.main_thread())

    def then() -> None:
        done.append(threading.current_thread() is threading.main_thread())
        loop.stop()

    in_thread(loop, [work, work], then)
    loop.call_later(0.0, go.set)
    loop.run()
    assert done == [False, False, True]


def test_nothing_to_do_needs_no_thread() -> None:
    done: list[int] = []
    in_thread(Loop(), [], lambda: done.append(threading.active_count()))
    assert done == [threading.active_count()]


def test_what_fails_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, done = Loop(), list[str]()
    monkeypatch.setattr(threading, "excepthook", lambda told: done.append(str(told.exc_value)))

    def work() -> None:
        raise ValueError("no")

    def then() -> None:
        done.append("then")
        loop.stop()

    in_thread(loop, [work, lambda: done.append("next")], then)
    loop.run()
    wait_for(lambda: len(done) == 2, "both")
    assert sorted(done) == ["no", "then"]
