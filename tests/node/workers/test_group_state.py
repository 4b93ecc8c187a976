"""Histories of a group of workers: what happens, how things are then, and what is done of it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.node.machine import descendants
from dsrun.launcher.node.workers import self_ending
from dsrun.launcher.node.workers.group_state import (
    DRAIN,
    ORPHAN_GRACE,
    GroupPhase,
    GroupSnapshot,
    GroupState,
    StopPolicy,
)
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec

from ...support.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

TERM, KILLED = signal.SIGTERM, signal.SIGKILL
GONE: list[Any] = [("finish", [])]


class Group:
    """Two workers with the pids 10 and 11, on a clock that a test moves."""

    def __init__(self, **policy: bool) -> None:
        self.workers = [
            Process(WorkerSpec(rank, [b"a"], {}, b"/"), 10 + rank, -1, -1, -1) for rank in (0, 1)
        ]
        self.do = Recorder()
        self.state = GroupState(StopPolicy(**policy), self.workers, self.do)
        self.now = 100.0
        self.children: list[int] = [10, 11]
        self.helpers: Collection[int] = ()
        self.writes = self.stalled = False

    def after(self, happened: Callable[..., None], *args: object, **kwargs: object) -> list[Any]:
        """Return what is done of what happens now."""
        looks = self.children if self.state.looks(self.now) else ()
        ends_alone = self.helpers if self.state.sweeps else ()
        now = GroupSnapshot(self.now, looks, ends_alone, self.writes, self.stalled)
        return self.do.after(happened, now, *args, **kwargs)

    def changed(self, seconds: float = 0.0) -> list[Any]:
        """Return what is done so many seconds later."""
        self.now += seconds
        return self.after(self.state.changed)

    def signalled(self, number: int = TERM, *, delivered: bool = False) -> list[Any]:
        """Return what is done of a stop, as yet without a deadline."""
        return self.after(self.state.stop, number, delivered=delivered)

    def stop(self, number: int, grace: float, *, delivered: bool = False) -> list[Any]:
        """Return what is done of a stop."""
        done = self.signalled(number, delivered=delivered)
        return done + self.after(self.state.kill_after, grace)

    def reaped(self, *pids: int) -> list[Any]:
        """Return what is done of children that have ended."""
        return self.after(self.state.were_reaped, pids)

    def end(self, code: int = 0, *more: int) -> list[Any]:
        """All workers end with this code, and leave these children."""
        for worker in self.state.running():
            worker.status = code << 8
        self.children = [*more]
        return self.reaped(10, 11)


def signals(number: int, *pids: int, group: bool = False) -> list[Any]:
    return [("signal", pid, one, group) for pid in pids for one in (number, signal.SIGCONT)]


def test_workers_that_end_are_all() -> None:
    group = Group()
    assert (group.state.looks(group.now), group.state.due) == (False, None)
    assert group.end() == GONE
    assert group.state.phase is GroupPhase.ENDED
    assert (group.state.due, group.signalled()) == (None, [])


def test_one_that_ends_is_not_the_end() -> None:
    group = Group()
    group.workers[0].status = 0
    assert group.reaped(10) == []
    assert [one.pid for one in group.state.running()] == [11]


# -- a stop ---------------------------------------------------------------------------------------


def test_a_stop_signals_once_and_kills_after_the_grace() -> None:
    group = Group()
    assert group.stop(TERM, 9.0) == signals(TERM, 10, 11)
    assert [one.signalled for one in group.workers] == [True, True]
    group.now += 1.0
    assert group.stop(TERM, 9.0) == []
    assert group.state.due == 109.0
    assert group.changed(8.0) == [("kill", {10, 11}, True)]
    assert group.after(group.state.were_killed, [10, 11, 12]) == []
    assert group.end() == GONE


def test_the_grace_begins_once_all_are_signalled() -> None:
    group = Group()
    assert group.signalled() == signals(TERM, 10, 11)
    assert group.state.due is None
    group.now += 0.5
    group.after(group.state.kill_after, 9.0)
    assert group.state.due == 109.5


def test_another_signal_is_passed_on_and_can_only_shorten_the_grace() -> None:
    group = Group()
    group.stop(TERM, 9.0)
    assert group.stop(signal.SIGINT, 99.0) == signals(signal.SIGINT, 10, 11)
    assert group.state.due == 109.0
    group.stop(signal.SIGINT, 2.0)
    assert group.state.due == 102.0


def test_a_signal_that_was_delivered_is_not_sent() -> None:
    group = Group()
    assert group.stop(TERM, 9.0, delivered=True) == []
    assert group.workers[0].signalled


def test_a_program_may_be_signalled_as_a_group() -> None:
    assert Group(group=True).stop(TERM, 9.0) == signals(TERM, 10, 11, group=True)


def test_what_comes_up_while_killing_is_killed_with_all_below() -> None:
    group = Group()
    group.stop(TERM, 0.0)
    group.changed()
    group.children = [11, 20]
    group.workers[0].status = KILLED
    assert group.reaped(10) == [("kill", {11, 20}, True)]
    group.children = [20]
    group.workers[1].status = KILLED
    assert group.reaped(11) == [("kill", {20}, False)]


def test_what_does_not_end_is_given_up() -> None:
    group = Group()
    group.stop(TERM, 0.0)
    group.changed()
    assert group.changed(descendants.GIVE_UP) == [("finish", [10, 11])]


def test_workers_of_another_user_are_left() -> None:
    group = Group()
    group.signalled()
    group.after(group.state.is_foreign, 10)
    assert group.changed() == []
    assert group.after(group.state.is_foreign, 11) == []
    assert group.changed() == [("finish", [10, 11])]


# -- what workers leave ---------------------------------------------------------------------------


def test_what_is_left_gets_a_moment_then_sigkill() -> None:
    group = Group()
    assert group.end(0, 20, 21) == [
        ("tell_left", [20, 21]),
        ("signal", 20, TERM),
        ("signal", 21, TERM),
    ]
    assert group.state.phase is GroupPhase.SWEEPING
    assert group.changed(ORPHAN_GRACE) == [("kill", {20, 21}, True)]
    group.children = []
    assert group.reaped(20, 21) == GONE


def test_what_failed_workers_leave_is_not_told() -> None:
    assert Group().end(7, 20) == [("signal", 20, TERM)]


def test_helpers_end_alone_and_are_told_if_they_do_not() -> None:
    group = Group()
    group.helpers = {20}
    assert group.end(0, 20) == []
    assert group.changed(self_ending.MOMENT) == [("tell_left", [20]), ("kill", {20}, True)]


@pytest.mark.parametrize("stopped", [False, True])
def test_what_a_job_leaves_may_stay_if_it_has_succeeded(stopped: bool) -> None:
    group = Group(allow_background=True)
    if stopped:
        group.signalled()
    done = group.end(0, 20)
    assert done == ([("signal", 20, TERM)] if stopped else GONE)
    assert group.state.may_stay() is not stopped


# -- output ---------------------------------------------------------------------------------------


def test_output_is_waited_for_but_not_long() -> None:
    group = Group()
    group.writes = True
    assert group.end() == []
    assert group.changed(DRAIN) == GONE


def test_output_that_ends_is_the_end() -> None:
    group = Group()
    group.writes = True
    group.end()
    group.writes = False
    assert group.changed() == GONE


def test_output_that_is_not_read_for_now_is_waited_for_until_a_stop() -> None:
    group = Group()
    group.writes = group.stalled = True
    group.end()
    assert group.state.due is None
    group.signalled()
    assert group.state.due == group.now + DRAIN
    assert group.changed(DRAIN) == GONE


def test_a_reader_that_stops_while_output_is_waited_for() -> None:
    group = Group()
    group.writes = True
    group.end()
    group.stalled = True
    assert group.changed(DRAIN) == []
    assert group.state.due is None
