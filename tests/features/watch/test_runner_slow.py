"""Warnings of slow ranks, by histories: nodes that a test plays, on a clock that goes when told."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.formats import as_json
from dsrun.launcher.control import frames, messages
from dsrun.launcher.features.watch import runner as attach
from dsrun.launcher.features.watch.runner_slow import TIMES, Streak
from dsrun.launcher.features.watch.runner_slow_report import Slow
from dsrun.launcher.features.watch.runner_slowness import SlowFinding
from dsrun.launcher.head.job.ending import ending_of
from dsrun.launcher.head.report.document import fields
from dsrun.launcher.head.report.report import of_kind
from dsrun.launcher.head.report.words import words
from dsrun.launcher.head.run.events import Alarm, AlarmOver

from ...support.activity import Worked

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

QUOTA = {"ran": 0.2, "waited": 0.75, "throttled": 0.75}


class Watched:
    """A job of two nodes with two ranks each, which makes a step in every quarter of a second.

    Attributes:
        alarms: what observers were told of.
    """

    def __init__(self, job: FakeFleet) -> None:
        self.job = job
        self.run = job.start()
        attach.slow(self.run)
        self.alarms: list[object] = []
        self.run.observe(self._on_event)
        self.worked = {"n0": Worked(0, 1), "n1": Worked(2, 3)}
        self._steps = 0
        self._report()
        job.said()

    def _on_event(self, event: object) -> None:
        if isinstance(event, (Alarm, AlarmOver)):
            self.alarms.append(event)

    def seconds(self, count: int, steps: int = 4, **shares: dict[str, float]) -> None:
        """Let so many seconds pass; `shares` has what ranks of a host do, if not the usual."""
        for _ in range(count):
            self.job.clock.go(1.0)
            for name, worked in self.worked.items():
                worked.goes(1.0, **shares.get(name, {}))
            self._print(steps)
            self._report()

    def _print(self, steps: int) -> None:
        for step in range(self._steps, self._steps + steps):
            self.job.node("n0").says(frames.pack_output(0, 1, f"step {step}\n".encode()))
        self._steps += steps

    def _report(self) -> None:
        for name, worked in self.worked.items():
            self.job.node(name).says(messages.pack(frames.ACTIVITY, worked.says()))
        self.job.step()

    def warnings(self) -> list[str]:
        """What was said since the last call."""
        return self.job.said("warning")


@pytest.fixture
def watched(fleet_of: FleetOf) -> Watched:
    return Watched(fleet_of("n0", "n1"))


def test_a_host_under_a_quota_is_named_within_20_steps(watched: Watched) -> None:
    watched.seconds(10)
    assert watched.warnings() == []
    watched.seconds(5, n1=QUOTA)
    ((line),) = watched.warnings()
    assert line.startswith("ranks 2-3 (n1) slow the job down: busy for 95% of the time, while")
    assert line.endswith("the CPU quota of n1 stopped it for 75% of the time")
    watched.seconds(20, n1=QUOTA)
    assert watched.warnings() == [], "once is enough"
    assert [one.then for one in watched.alarms if isinstance(one, Alarm)] == ["report"]


def test_what_is_slow_at_the_end_is_in_the_report(watched: Watched) -> None:
    watched.seconds(10, n1=QUOTA)
    watched.job.node("n1").exits(3, 7)
    watched.job.step()
    report = ending_of(watched.run.view()).report
    assert report is not None
    assert "\n  slow: ranks 2-3 (n1) slow the job down: busy" in words(report)
    found: Any = as_json(fields(report))["slow"]
    (entry,) = found
    assert (entry["cause"], entry["ranks"], entry["seconds"]) == ("quota", [2, 3], None)


def test_it_may_end_and_is_told_less_often_if_it_comes_and_goes(watched: Watched) -> None:
    for _ in range(6):
        watched.seconds(TIMES + 1, n1=QUOTA)
        watched.seconds(TIMES + 1)
    assert len(watched.warnings()) == 1
    assert [type(one) for one in watched.alarms] == [Alarm, AlarmOver]
    (slow,) = of_kind(watched.run.state.record.found, Slow)
    assert slow.until is not None
    watched.seconds(2 * TIMES, n1=QUOTA)
    assert len(watched.warnings()) == 1


def test_a_rank_that_works_while_the_others_wait_for_no_step_is_not_slow(watched: Watched) -> None:
    """An evaluation or a checkpoint on rank 0: the others wait at a barrier."""
    watched.seconds(10)
    for _ in range(5):
        watched.seconds(120, steps=0, n0={"ran": 0.99})
        watched.seconds(5)
    assert watched.warnings() == []


def test_a_new_worker_has_no_past(watched: Watched) -> None:
    watched.seconds(TIMES - 1, n1=QUOTA)
    watched.job.node("n1").exits(3, 0)
    watched.job.step()
    watched.worked["n1"] = Worked(2)
    watched.seconds(4)
    assert watched.warnings() == []


def test_a_rank_that_falls_behind_is_named(watched: Watched) -> None:
    job = watched.job
    for tick in range(400):
        job.clock.go(0.1)
        for rank, every in ((0, 10), (1, 10), (2, 14), (3, 10)):
            if tick % every == 0:
                text = f"step {tick // every}\n".encode()
                job.node("n0" if rank < 2 else "n1").says(frames.pack_output(rank, 1, text))
        if tick % 10 == 9:
            for worked in watched.worked.values():
                worked.goes(1.0)
            watched._report()
        if tick == 250:
            ((line),) = watched.warnings()
            assert line.startswith("rank 2 (")
            assert "falls behind: its lines now come" in line
    assert watched.warnings() == []


def test_a_streak_is_of_one_subject() -> None:
    one, other = (SlowFinding((rank,), ("n",), "cpu", "words") for rank in (1, 2))
    streak = Streak(6)
    assert [streak.add(each) for each in (one, other, one, one._replace(cause="disk"), one)] == [
        *(False, False, False, True, False)
    ]
    assert streak.found is not None
    assert [streak.add(each) for each in (None, one, None, None)] == [False, False, False, True]
    assert streak.found is None
    streak = Streak(6)
    assert [streak.add(one._replace(weight=1)) for _ in range(6)] == [False] * 5 + [True]


@pytest.mark.tier("all")
@pytest.mark.parametrize("seed", range(5))
def test_an_hour_of_even_ranks(seed: int, watched: Watched) -> None:
    """Shares, links and steps vary as on a busy machine: nobody stands out for long."""
    chance = random.Random(seed)
    usual = chance.uniform(0.05, 0.9)
    for _ in range(3600):
        for worked in watched.worked.values():
            for peer in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
                worked.sends(peer, chance.randrange(1 << 22), chance.uniform(0.0, 0.2))
        shares = {
            name: {"ran": min(1.0, usual * chance.uniform(0.5, 1.5)), "waited": chance.random() / 4}
            for name in watched.worked
        }
        watched.seconds(1, steps=chance.choice([0, 1, 3, 20]), **shares)
    assert watched.warnings() == []
