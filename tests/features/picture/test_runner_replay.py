"""The timeline of a job from what was kept of it is the one that was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.picture.runner_page import page
from dsrun.launcher.features.picture.runner_replay import Past, PrintedBlock, replay
from dsrun.launcher.head.run.events import Exit, Lost, RankOutput, RanksStarted, Round, Started

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


def past(happened: list[tuple[float, RunEvent]], role: str = "") -> list[Past]:
    return [Past(at, role, event) for at, event in happened]


def test_the_same_events_draw_the_same_picture() -> None:
    played, before = Played(), 0.0
    for at, event in HAPPENED:
        played.tell(event, after=at - before)
        before = at
    played.clock.now += 1.0
    again = replay(past(HAPPENED), 6.0)
    assert again.now == 6.0
    assert page(REPORT, "", again) == page(REPORT, "", played.timeline)


def test_what_still_runs_lasts_until_now() -> None:
    newest = PrintedBlock("", 1, b"newest saved b.ckpt\n")
    timeline = replay(past(HAPPENED[:3]), 9.0, tails=[newest])
    data = embedded(page(REPORT, "", timeline))
    assert data["seconds"] == 9.0
    assert data["tails"] == {"0": [], "1": [["", "newest saved b.ckpt\n"]]}
    assert data["marks"] == []
    assert [span[5] for span in data["spans"]] == ["running"] * 2  # type: ignore[attr-defined]


def test_output_of_which_the_round_is_not_known_is_that_of_none() -> None:
    rounds = [Round(number, number - 1, 1, ("n0",)) for number in (1, 2)]
    happened: list[tuple[float, RunEvent]] = [
        (1.0, event) for one in rounds for event in (one, RanksStarted("n0", (0,)))
    ]
    tails = [PrintedBlock("", 0, b"step 1\n"), PrintedBlock("", 0, b"step 2\n")]
    assert replay(past(happened), 9.0, tails=tails).tail(0) == [("", "step 1\nstep 2\n")]


def test_nothing_may_have_happened() -> None:
    assert replay([], 0.0).now == 0.0


def test_roles_have_rows_of_their_own() -> None:
    happened = sorted(past(HAPPENED, "server") + past(HAPPENED[:2], "trainer") + past(HAPPENED))
    tails = [PrintedBlock("trainer", 0, b"step 1\n"), PrintedBlock("other", 0, b"x")]
    roles = {"server": "never", "trainer": "job"}
    timeline = replay(happened, 9.0, roles, tails)
    assert timeline.hosts == [f"{role}/{host}" for role in roles for host in ("n0", "n1")]
    data = embedded(page(REPORT, "", timeline))
    assert [span[5] for span in data["spans"]] == ["lost", "failed", "running"]  # type: ignore[attr-defined]
    assert list(data["tails"].values()) == [  # type: ignore[attr-defined]
        [["", "saved a.ckpt\n"]], [], [["", "step 1\n"]]
    ]  # fmt: skip
