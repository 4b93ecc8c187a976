"""Whether a signal has reached the workers as well."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node.signal_deduplicator import RECENT, TOGETHER, SignalDeduplicator

from ..support import clock as support

if TYPE_CHECKING:
    from dsrun.launcher.node.signal_deduplicator import Way


def judged(*ways: Way, pause: float = 0.0) -> list[tuple[int, bool]]:
    """Return what is reported of USR1 if it comes in these ways, with this pause between them."""
    clock, found = support.Clock(), list[tuple[int, bool]]()
    signals = SignalDeduplicator(clock.loop, lambda *one: found.append(one))
    for way in ways:
        signals.received(signal.SIGUSR1, way)
        clock.go(pause)
    clock.go(2 * TOGETHER)
    return found


@pytest.mark.parametrize(
    ("ways", "told"),
    [
        (["guard"], False),
        (["launcher"], False),
        (["guard", "guard"], False),
        (["guard", "launcher"], True),
        (["launcher", "guard"], True),
    ],
)
def test_what_reaches_both_has_reached_all(ways: list[Way], told: bool) -> None:
    assert judged(*ways) == [(signal.SIGUSR1, told)]


def test_two_signals_are_two() -> None:
    assert judged("guard", "launcher", pause=0.2) == [(signal.SIGUSR1, False)] * 2


def test_a_signal_that_reached_all_is_known_for_a_while() -> None:
    clock = support.Clock()
    signals = SignalDeduplicator(clock.loop, lambda *_: None)
    signals.received(signal.SIGTERM, "guard")
    signals.received(signal.SIGTERM, "launcher")
    assert not signals.reached_workers(signal.SIGTERM)
    clock.go(1.0)
    assert signals.reached_workers(signal.SIGTERM)
    assert not signals.reached_workers(signal.SIGUSR1)
    clock.now += RECENT
    assert not signals.reached_workers(signal.SIGTERM)


@pytest.mark.parametrize(
    ("age", "delivered"), [(0.0, False), (TOGETHER / 2, False), (2 * TOGETHER, True)]
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
    signals.settle()
    assert found == [(signal.SIGTERM, delivered)]
    assert not signals.reached_workers(signal.SIGTERM)
    clock.go(1.0)
    assert len(found) == 1
    signals.received(signal.SIGTERM, "guard")
    clock.go(TOGETHER)
    assert found[1:] == [(signal.SIGTERM, False)]
    signals.settle()
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
