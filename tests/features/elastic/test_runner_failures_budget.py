"""Which failures are worth a restart, and when the next round begins."""

from __future__ import annotations

from dsrun.launcher.features.elastic.runner_failures import LONGEST

from ...support.elastic_rounds import Job, running


def fails(job: Job, code: int = 1) -> bool:
    """Whether the job survives that all workers fail and are stopped."""
    goes_on = job.failed("rank 0", code, 0)
    if goes_on:
        job.join(*sorted(job.formed[-1]))
    return goes_on


def waits(job: Job) -> int:
    """The whole seconds until the next round is formed."""
    rounds, seconds = len(job.formed), 0
    while len(job.formed) == rounds:
        job.clock.go(1)
        seconds += 1
    return seconds


def test_each_restart_waits_for_longer_than_the_one_before() -> None:
    job = running(2, restarts=10)
    assert fails(job)
    assert len(job.formed) == 2
    assert [waits(job) for _ in range(8) if fails(job)] == [1, 2, 4, 8, 16, 32, LONGEST, LONGEST]


def test_a_budget_for_a_window_is_never_used_up() -> None:
    job = running(1, restarts=1, window=50.0)
    for _ in range(5):
        assert fails(job)
        assert not job.tell(job.rounds.restart_requested, "it hangs", 1)
        job.clock.go(51)
    assert job.rounds.restarts == 5


def test_what_fails_at_once_is_not_worth_a_restart() -> None:
    for seconds, survives in ((4, False), (6, True)):
        job = running(1, uptime=5.0)
        job.clock.go(seconds)
        assert fails(job) is survives


def test_some_codes_are_not_worth_a_restart() -> None:
    survived = {code: fails(running(1, final=frozenset({2, 137})), code) for code in (2, 3, 137)}
    assert survived == {2: False, 3: True, 137: False}
