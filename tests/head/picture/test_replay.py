"""The timeline of a job from what was kept of it is the one that was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.head.picture.page import page
from dsrun.launcher.head.picture.replay import replay
from dsrun.launcher.head.run.events import Exit, Lost, RankOutput, RanksStarted, Started

from ...support.pictures import REPORT, Played, embedded

if TYPE_CHECKING:
    from dsrun.launcher.head.run.events import RunEvent

HAPPENED: list[tuple[float, RunEvent]] = [
    (0.5, Started("j", 2, ("n0", "n1"), ("n0", 1))),
    (1.0, RanksStarted("n0", (0,))),
    (1.25, RanksStarted("n1", (1,))),
    (2.0, RankOutput(0, "n0", 1, b"saved a.ckpt\n")),
    (4.0, Lost("n1", "gone", survived=False)),
    (5.0, Exit(0, "n0", 7, 3, False, "")),
]


def test_the_same_events_draw_the_same_picture() -> None:
    played, before = Played(), 0.0
    for at, event in HAPPENED:
        played.tell(event, after=at - before)
        before = at
    played.clock.now += 1.0
    again = replay(HAPPENED, 6.0)
    assert again.now == 6.0
    assert page(REPORT, "", again) == page(REPORT, "", played.timeline)


def test_what_still_runs_lasts_until_now() -> None:
    timeline = replay(HAPPENED[:3], 9.0)
    timeline.remember(1, b"newest saved b.ckpt\n")
    data = embedded(page(REPORT, "", timeline))
    assert data["seconds"] == 9.0
    assert data["tails"] == {"0": "", "1": "newest saved b.ckpt\n"}
    assert data["marks"] == []
    assert [span[5] for span in data["spans"]] == ["running"] * 2  # type: ignore[attr-defined]


def test_nothing_may_have_happened() -> None:
    assert replay([], 0.0).now == 0.0
