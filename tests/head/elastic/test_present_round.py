"""The round that there is now."""

from __future__ import annotations

from dsrun.launcher.head.elastic.present_round import PresentRound, RoundPhase

from ...support.clock import Clock


def test_a_round_is_complete_once_all_of_its_nodes_have_finished() -> None:
    present = PresentRound((3, 5))
    present.finished.add(5)
    assert (present.phase, present.complete) == (RoundPhase.RUNNING, False)
    present.finished.add(3)
    assert present.complete


def test_before_the_first_round_nothing_is_complete() -> None:
    assert not PresentRound().complete


def test_nothing_is_watched_once_it_has_ended() -> None:
    clock = Clock()
    present, late = PresentRound((3, 5)), list[int]()
    present.watch(clock.loop, 5.0, lambda: late.append(5))
    present.watch(clock.loop, 9.0, lambda: late.append(9))
    clock.go(6.0)
    present.end()
    clock.go(6.0)
    assert late == [5]
