"""Whether a signal has reached the workers as well."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node.session.signal_deduplicator import (
    RECENT,
    TOGETHER,
    YOUNG,
    SignalDeduplicator,
)

from ...support import clock as support

if TYPE_CHECKING:
    from dsrun.launcher.node.session.signal_deduplicator import Way


def judged(*ways: Way, pause: float = 0.0) -> list[tuple[int, bool]]:
    """Return what is reported of USR1 if it comes in these ways, with this pause between them."""
    clock, found = support.Clock(), list[tuple[int, bool]]()
    signals = SignalDeduplicator(clock.loop, lambda *one: found.append(one))
    for way in ways:
        signals.received(signal.SIGUSR1, way)
        clock.go(min(pause, TOGETHER))
        clock.go(max(0.0, pause - TOGETHER))
    clock.go(TOGETHER)
    return found


@pytest.mark.parametrize(
    ("ways", "told"),
    [
        (["guard"], False),
        (["launcher"], False),
        (["guard", "guard"], False),
        (["guard", "launcher"], True),
        (["launcher", "guard"], True),
        (["guard", "launcher", "launcher", "guard"], True),
    ],
)
def test_what_reaches_both_has_reached_all(ways: list[Way], told: bool) -> None:
    assert judged(*ways) == [(signal.SIGUSR1, told)]


@pytest.mark.parametrize("ways", [["guard", "launcher"], ["launcher", "guard"]])
def test_one_that_comes_late_in_its_other_way_is_the_same(ways: list[Way]) -> None:
    assert judged(*ways, pause=2 * TOGETHER) == [(signal.SIGUSR1, False)]


@pytest.mark.parametrize(
    "ways", [["guard", "guard"], ["launcher", "launcher"], ["guard", "launcher", "guard"]]
)
def test_one_that_comes_again_in_the_same_way_is_another(ways: list[Way]) -> None:
    assert judged(*ways, pause=2 * TOGETHER) == [(signal.SIGUSR1, False)] * 2


def test_ways_that_are_far_apart_are_two_signals() -> None:
    pause = RECENT + 2 * TOGETHER
    assert judged("guard", "launcher", pause=pause) == [(signal.SIGUSR1, False)] * 2


def test_while_it_is_not_known_where_it_came_it_is_handled_nevertheless() -> None:
    """And so for a while after that; the runner's own is then the same."""
    clock = support.Clock()
    signals = SignalDeduplicator(clock.loop, lambda *_: None)
    assert not signals.handled(signal.SIGUSR1)
    signals.received(signal.SIGUSR1, "guard")
    for pause in (TOGETHER / 2, TOGETHER):
        clock.go(pause)
        assert signals.handled(signal.SIGUSR1)
        assert not signals.reached_workers(signal.SIGUSR1)
        assert not signals.handled(signal.SIGUSR2)
    clock.now += RECENT
    assert not signals.handled(signal.SIGUSR1)


def test_a_signal_that_reached_all_is_known_for_a_while() -> None:
    clock = support.Clock()
    signals = SignalDeduplicator(clock.loop, lambda *_: None)
    signals.received(signal.SIGTERM, "guard")
    signals.received(signal.SIGTERM, "launcher")
    clock.go(1.0)
    assert signals.reached_workers(signal.SIGTERM)
    assert not signals.reached_workers(signal.SIGUSR1)
    clock.now += RECENT
    assert not signals.reached_workers(signal.SIGTERM)


@pytest.mark.parametrize(
    ("age", "delivered"), [(0.0, False), (YOUNG / 2, False), (2 * YOUNG, True)]
)
def test_workers_that_have_just_begun_may_have_been_missed(age: float, delivered: bool) -> None:
    """The signal may have come while they were forked."""
    clock, found = support.Clock(), list[tuple[int, bool]]()
    signals = SignalDeduplicator(clock.loop, lambda *one: found.append(one))
    signals.started()
    clock.go(age)
    signals.received(signal.SIGTERM, "launcher")
    signals.received(signal.SIGTERM, "guard")
    clock.go(2 * TOGETHER)
    assert found == [(signal.SIGTERM, delivered)]
    assert signals.reached_workers(signal.SIGTERM) is delivered


@pytest.mark.parametrize(("ways", "delivered"), [(["guard"], False), (["launcher", "guard"], True)])
def test_what_has_come_can_be_settled_at_once(ways: list[Way], delivered: bool) -> None:
    """Workers that start then have not got it, and it is not acted on twice."""
    clock, found = support.Clock(), list[tuple[int, bool]]()
    signals = SignalDeduplicator(clock.loop, lambda *one: found.append(one))
    for way in ways:
        signals.received(signal.SIGTERM, way)
    signals.flush()
    assert found == [(signal.SIGTERM, delivered)]
    assert not signals.reached_workers(signal.SIGTERM)
    clock.go(1.0)
    assert len(found) == 1
    signals.received(signal.SIGTERM, "guard")
    clock.go(TOGETHER)
    assert found[1:] == [(signal.SIGTERM, False)]
    signals.flush()
    assert len(found) == 2


def test_a_signal_is_judged_when_both_may_have_got_it() -> None:
    clock, found = support.Clock(), list[tuple[int, bool]]()
    signals = SignalDeduplicator(clock.loop, lambda *one: found.append(one))
    signals.received(signal.SIGINT, "guard")
    clock.go(0.6 * TOGETHER)
    assert found == []
    signals.received(signal.SIGINT, "launcher")
    signals.received(signal.SIGUSR1, "launcher")
    clock.go(0.6 * TOGETHER)
    assert found == [(signal.SIGINT, True)]
    clock.go(0.6 * TOGETHER)
    assert found == [(signal.SIGINT, True), (signal.SIGUSR1, False)]
