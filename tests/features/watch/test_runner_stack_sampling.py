"""When the stacks of all ranks are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.watch.runner_idle_times import RankIdleTimes
from dsrun.launcher.features.watch.runner_stack_sampling import StackSampling

from ...support.stacks import LOAD, ranks, view
from .test_runner_idle_times import row, taken

if TYPE_CHECKING:
    from dsrun.launcher.features.stacks.runner_view import RankView


def views(idle: float = 0.0, active: bool = False) -> dict[int, RankView]:
    waiting = [view(rank, idle=idle) for rank in range(3)]
    return ranks(*waiting, view(3, LOAD, idle=0.0 if active else idle, active=active))


def test_the_first_look_is_at_half_of_the_time_and_the_second_at_its_end() -> None:
    sampling, idle_times = StackSampling(20.0), RankIdleTimes(2.0)
    assert sampling.due(idle_times, 4.0, 100.0) == 6.0
    assert sampling.sample(views(10.0), 106.0) is None
    assert sampling.due(idle_times, 12.0, 108.0) == 8.0
    found = sampling.sample(views(20.0), 116.0)
    assert found is not None
    assert found.odd == (3,)


def test_a_first_look_that_comes_late_is_followed_by_another_one_soon() -> None:
    sampling, idle_times = StackSampling(20.0), RankIdleTimes(2.0)
    sampling.sample(views(50.0), 100.0)
    assert sampling.due(idle_times, 50.0, 101.0) == 4.0


def test_a_rank_that_works_is_judged_when_it_has_done_nothing_for_as_long() -> None:
    sampling, idle_times = StackSampling(20.0), taken(RankIdleTimes(2.0), 100.0, row(3))
    sampling.sample(views(10.0, active=True), 90.0)
    assert sampling.sample(views(20.0, active=True), 100.0) is None
    assert sampling.due(idle_times, 21.0, 101.0) == 9.0
    assert sampling.sample(views(30.0, active=True), 110.0) is None
    taken(idle_times, 115.0, row(3))
    taken(idle_times, 117.0, row(3, idle=2.0))
    assert sampling.due(idle_times, 38.0, 118.0) == 2.0
    assert sampling.sample(views(40.0, active=True), 120.0) is None
    taken(idle_times, 121.0, row(3, idle=6.0))
    taken(idle_times, 129.0, row(3, idle=14.0))
    assert sampling.sample(views(50.0), 130.0) is not None


def test_all_is_forgotten_once_the_job_works() -> None:
    sampling, idle_times = StackSampling(20.0), RankIdleTimes(2.0)
    sampling.sample(views(10.0), 100.0)
    sampling.sample(views(20.0, active=True), 110.0)
    assert sampling.due(idle_times, 1.0, 111.0) == 9.0
    assert sampling.sample(views(20.0), 120.0) is None
