"""Histories of a group of workers as values: what happens, what is seen, and what is done of it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.node.machine import descendants
from dsrun.launcher.node.workers import helpers
from dsrun.launcher.node.workers.group_state import (
    DRAIN,
    ORPHAN_GRACE,
    Changed,
    End,
    Foreign,
    Grace,
    GroupFacts,
    GroupState,
    Kill,
    Killed,
    Phase,
    Reaped,
    Signal,
    Stop,
    StopPolicy,
    Tell,
)
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec

if TYPE_CHECKING:
    from collections.abc import Collection

TERM, KILLED = signal.SIGTERM, signal.SIGKILL
STOP = Stop(TERM, delivered=False)


class Group:
    """Two workers with the pids 10 and 11, on a clock that a test moves."""

    def __init__(self, **policy: bool) -> None:
        self.workers = [
            Process(WorkerSpec(rank, [b"a"], {}, b"/"), 10 + rank, -1, -1, -1) for rank in (0, 1)
        ]
        self.state = GroupState(StopPolicy(**policy), self.workers)
        self.now = 100.0
        self.children: list[int] = [10, 11]
        self.helpers: Collection[int] = ()
        self.writes = self.stalled = False

    def step(self, event: object, seconds: float = 0.0) -> list[Any]:
        """Return what is done of an event, so many seconds later."""
        self.now += seconds
        looks = self.children if self.state.looks(self.now) else ()
        ends_alone = self.helpers if self.state.sweeps else ()
        return self.state.step(
            event, GroupFacts(self.now, looks, ends_alone, self.writes, self.stalled)
        )

    def stop(self, number: int, grace: float, *, delivered: bool = False) -> list[Any]:
        """Return what is done of a stop."""
        return self.step(Stop(number, delivered)) + self.step(Grace(grace))

    def end(self, code: int = 0, *more: int) -> list[Any]:
        """All workers end with this code, and leave these children."""
        for worker in self.state.running():
            worker.status = code << 8
        self.children = [*more]
        return self.step(Reaped([10, 11]))


def signals(number: int, *pids: int, group: bool = False) -> list[Signal]:
    return [Signal(pid, one, group) for pid in pids for one in (number, signal.SIGCONT)]


def test_workers_that_end_are_all() -> None:
    group = Group()
    assert (group.state.looks(group.now), group.state.due) == (False, None)
    assert group.end() == [End([])]
    assert group.state.phase is Phase.ENDED
    assert (group.state.due, group.step(STOP)) == (None, [])


def test_one_that_ends_is_not_the_end() -> None:
    group = Group()
    group.workers[0].status = 0
    assert group.step(Reaped([10])) == []
    assert [one.pid for one in group.state.running()] == [11]


# -- a stop ---------------------------------------------------------------------------------------


def test_a_stop_signals_once_and_kills_after_the_grace() -> None:
    group = Group()
    assert group.stop(TERM, 9.0) == signals(TERM, 10, 11)
    assert [one.signalled for one in group.workers] == [True, True]
    group.now += 1.0
    assert group.stop(TERM, 9.0) == []
    assert group.state.due == 109.0
    assert group.step(Changed(), 8.0) == [Kill({10, 11}, below=True)]
    assert group.step(Killed([10, 11, 12])) == []
    assert group.end() == [End([])]


def test_the_grace_begins_once_all_are_signalled() -> None:
    group = Group()
    assert group.step(STOP) == signals(TERM, 10, 11)
    assert group.state.due is None
    group.step(Grace(9.0), 0.5)
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
    group.step(Changed())
    group.children = [11, 20]
    group.workers[0].status = KILLED
    assert group.step(Reaped([10])) == [Kill({11, 20}, below=True)]
    group.children = [20]
    group.workers[1].status = KILLED
    assert group.step(Reaped([11])) == [Kill({20}, below=False)]


def test_what_does_not_end_is_given_up() -> None:
    group = Group()
    group.stop(TERM, 0.0)
    group.step(Changed())
    assert group.step(Changed(), descendants.GIVE_UP) == [End([10, 11])]


def test_workers_of_another_user_are_left() -> None:
    group = Group()
    group.step(STOP)
    group.step(Foreign(10))
    assert group.step(Changed()) == []
    assert group.step(Foreign(11)) == []
    assert group.step(Changed()) == [End([10, 11])]


# -- what workers leave ---------------------------------------------------------------------------


def test_what_is_left_gets_a_moment_then_sigkill() -> None:
    group = Group()
    assert group.end(0, 20, 21) == [Tell([20, 21]), Signal(20, TERM), Signal(21, TERM)]
    assert group.state.phase is Phase.SWEEPING
    assert group.step(Changed(), ORPHAN_GRACE) == [Kill({20, 21}, below=True)]
    group.children = []
    assert group.step(Reaped([20, 21])) == [End([])]


def test_what_failed_workers_leave_is_not_told() -> None:
    assert Group().end(7, 20) == [Signal(20, TERM)]


def test_helpers_end_alone_and_are_told_if_they_do_not() -> None:
    group = Group()
    group.helpers = {20}
    assert group.end(0, 20) == []
    assert group.step(Changed(), helpers.MOMENT) == [Tell([20]), Kill({20}, below=True)]


@pytest.mark.parametrize("stopped", [False, True])
def test_what_a_job_leaves_may_stay_if_it_has_succeeded(stopped: bool) -> None:
    group = Group(allow_background=True)
    if stopped:
        group.step(STOP)
    done = group.end(0, 20)
    assert done == ([Signal(20, TERM)] if stopped else [End([])])
    assert group.state.may_stay() is not stopped


# -- output ---------------------------------------------------------------------------------------


def test_output_is_waited_for_but_not_long() -> None:
    group = Group()
    group.writes = True
    assert group.end() == []
    assert group.step(Changed(), DRAIN) == [End([])]


def test_output_that_ends_is_the_end() -> None:
    group = Group()
    group.writes = True
    group.end()
    group.writes = False
    assert group.step(Changed()) == [End([])]


def test_output_that_is_not_read_for_now_is_waited_for_until_a_stop() -> None:
    group = Group()
    group.writes = group.stalled = True
    group.end()
    assert group.state.due is None
    group.step(STOP)
    assert group.state.due == group.now + DRAIN
    assert group.step(Changed(), DRAIN) == [End([])]


def test_a_reader_that_stops_while_output_is_waited_for() -> None:
    group = Group()
    group.writes = True
    group.end()
    group.stalled = True
    assert group.step(Changed(), DRAIN) == []
    assert group.state.due is None
