"""What ranks did between two reports of their nodes."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.watch.runner_step_activity import LinkSpan, RankSpan, Spans

from ...support.activity import Worked

HOSTS = {"10.0.0.1": "n1", "10.0.0.2": "n2"}


def test_a_span_takes_all_nodes_some_time_and_a_step() -> None:
    spans, one, two = Spans(HOSTS), Worked(0), Worked(1)
    assert spans.add("n1", one.says(), 50.0, 3) is None
    assert spans.add("n2", two.says(), 50.1, 3) is None
    one.goes(2.0, ran=0.5, waited=0.25)
    assert spans.add("n1", one.says(), 52.0, 4) is None, "of n2 nothing new is known"
    two.goes(0.5)
    assert spans.add("n2", two.says(), 52.1, 4) is None, "too short"
    two.goes(0.5)
    assert spans.add("n2", two.says(), 52.2, 3) is None, "no step"
    span = spans.add("n2", two.says(), 52.5, 5)
    assert span is not None
    assert (span.steps, span.seconds, span.throttled) == (2, 2.5, {"n1": 0.0, "n2": 0.0})
    assert span.ranks[0] == RankSpan("n1", 0.75, 0.25, blocked=False)
    assert span.ranks[1].busy == pytest.approx(0.2)
    assert spans.add("n2", two.says(), 52.6, 9) is None, "the next span has begun"


def one_span(worked: Worked, **shares: float) -> RankSpan:
    """What the first rank of a node did in two seconds."""
    spans = Spans({})
    spans.add("n1", worked.says(), 0.0, 0)
    worked.goes(2.0, **shares)
    span = spans.add("n1", worked.says(), 2.0, 1)
    assert span is not None
    return span.ranks[0]


def test_a_thread_that_a_quota_has_stopped_is_busy_whether_or_not_it_counts_as_waiting() -> None:
    assert one_span(Worked(0), ran=0.2, throttled=0.8).busy == pytest.approx(1.0)
    assert one_span(Worked(0), ran=0.2, waited=0.7, throttled=0.8).busy == pytest.approx(1.0)
    assert one_span(Worked(0, 1), ran=0.2, throttled=0.8).busy == pytest.approx(0.6)


def test_a_rank_that_waits_for_a_disk_is_busy() -> None:
    worked = Worked(0)
    worked.state = "D"
    assert one_span(worked, ran=0.1) == RankSpan("n1", 1.0, 0.0, blocked=True)


def test_links_are_those_to_other_hosts_of_the_job() -> None:
    spans, worked = Spans(HOSTS), Worked(0)
    for peer in (*HOSTS, "10.0.0.9"):
        worked.sends(peer, 1000, 0.5)
    spans.add("n1", worked.says(), 0.0, 0)
    worked.goes(2.0)
    for peer in (*HOSTS, "10.0.0.9"):
        worked.sends(peer, 500, 0.25)
    span = spans.add("n1", worked.says(), 2.0, 1)
    assert span is not None
    ((link),) = span.links
    assert link == LinkSpan("n1", "n2", 500, 0.25, 2.0, 0)
    assert (link.rate, link.load) == (2000.0, 0.125)


def test_other_workers_begin_anew() -> None:
    spans, worked = Spans({}), Worked(0)
    spans.add("n1", worked.says(), 0.0, 0)
    spans.add("n1", Worked().says(), 1.0, 0)  # all have ended
    spans.reset()
    worked.goes(5.0)
    assert spans.add("n1", worked.says(), 5.0, 9) is None
