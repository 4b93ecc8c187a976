"""The round that there is now."""

from __future__ import annotations

from dsrun.launcher.head.elastic.present_round import PresentRound, RoundPhase


def test_a_round_is_complete_once_all_of_its_nodes_have_finished() -> None:
    present = PresentRound((3, 5))
    present.finished.add(5)
    assert (present.phase, present.complete) == (RoundPhase.RUNNING, False)
    present.finished.add(3)
    assert present.complete


def test_before_the_first_round_nothing_is_complete() -> None:
    assert not PresentRound().complete
