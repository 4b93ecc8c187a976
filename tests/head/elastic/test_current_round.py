"""The round that there is now."""

from __future__ import annotations

from dsrun.launcher.head.elastic.current_round import CurrentRound, RoundPhase

from ...support.clock import Clock


def test_a_round_is_complete_once_all_of_its_nodes_have_finished() -> None:
    present = CurrentRound((3, 5))
    present.finished.add(5)
    assert (present.phase, present.complete) == (RoundPhase.RUNNING, False)
    present.finished.add(3)
    assert present.complete


def test_before_the_first_round_nothing_is_complete() -> None:
    assert not CurrentRound().complete


def test_nothing_is_watched_once_it_has_ended() -> None:
    clock = Clock()
    present, late = CurrentRound((3, 5)), list[int]()
    present.watch(clock.timers, 5.0, lambda: late.append(5))
    present.watch(clock.timers, 9.0, lambda: late.append(9))
    clock.go(6.0)
    present.end()
    clock.go(6.0)
    assert late == [5]
