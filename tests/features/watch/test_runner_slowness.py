"""Who is slow, and why: tables of what ranks and links did."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.watch.runner_slowness import behind, slow
from dsrun.launcher.features.watch.runner_step_activity import LinkSpan, RankSpan, Span

MB = 1_000_000


def span(busy: str, *links: LinkSpan, **throttled: float) -> Span:
    """A span in which the ranks of `a`, `b` ... were busy: "a90 a80 b10"; "a90/60": 60 % waited."""
    ranks = {rank: rank_span(word) for rank, word in enumerate(busy.split())}
    return Span(3, 2.0, ranks, throttled, links)


def rank_span(word: str) -> RankSpan:
    busy, _, waited = word[1:].partition("/")
    return RankSpan(word[0], int(busy) / 100, int(waited or 0) / 100, blocked=False)


@pytest.mark.parametrize(
    "busy",
    [
        "a95 b95 c95",
        "a30 b10 c10",  # rank 0 does a little more, as usual
        "a60 b10 c10",  # nobody has waited for that
        "a95 b80 c90",
        "a95 a95 b95 b20",  # two hosts, and neither a host nor a rank stands out
        "a99",
        "a99 a99",
    ],
)
def test_even_ranks(busy: str) -> None:
    assert slow(span(busy)) is None


def test_a_clear_finding_counts_more() -> None:
    assert [one and one.weight for one in map(slow, (span("a98 b45"), span("a98 b55")))] == [3, 1]


@pytest.mark.parametrize(
    ("busy", "ranks", "host"),
    [
        ("a98 b30 c20 d40", (0,), "a"),
        ("a20 a30 b98 b90 c20 c20", (2, 3), "b"),
        ("a20 a30 b98 b30", (2,), "b"),
        ("a20 a98", (1,), "a"),
        ("a98 b60", (0,), "a"),
    ],
)
def test_who_works_while_the_others_wait_is_slow(
    busy: str, ranks: tuple[int, ...], host: str
) -> None:
    found = slow(span(busy))
    assert found is not None
    assert (found.ranks, found.hosts, found.cause) == (ranks, (host,), "work")


def test_the_sentence() -> None:
    found = slow(span("a20 a30 b98 b90", b=0.71))
    assert found is not None
    assert found.sentence == (
        "ranks 2-3 (b) slow the job down: busy for 90% of the time, while the others wait and are"
        " busy for at most 30%; the CPU quota of b stopped it for 71% of the time"
    )


def test_the_cause() -> None:
    def cause(one: Span) -> str:
        found = slow(one)
        assert found is not None
        return f"{found.cause}: {found.sentence.rpartition('; ')[2]}"

    assert cause(span("a98/70 b20", b=0.7)) == (
        "cpu: it waits for a CPU 70% of the time, while other threads on a use it"
    )
    assert cause(span("a98/40 b20", a=1.7)).startswith("quota: the CPU quota of a stopped")
    assert "100%" in cause(span("a98 b20", a=1.7))
    blocked = span("a98 b20")._replace(
        ranks={0: RankSpan("a", 1.0, 0.0, blocked=True), 1: RankSpan("b", 0.2, 0.0, blocked=False)}
    )
    assert cause(blocked).startswith("disk: ")


@pytest.mark.parametrize(
    ("busy", "cause"),
    [
        ("a98/30 a18/5 b15", "work"),  # five times the work, where both CPUs are in use
        ("a98/70 b45/20 c30", "cpu"),  # the same work
        ("a98/60 b30 c28", "cpu"),  # a little more, but most of it is waiting
        ("a97/54 a47/37 b40/31", "work"),  # where everybody waits for CPUs
        ("a98/68 b15 c15", "cpu"),  # twice the work, but most of it is waiting
        ("a98/10 b20", "work"),
    ],
)
def test_who_runs_much_longer_than_the_others_has_more_to_do(busy: str, cause: str) -> None:
    """A rank that only lacks a CPU runs as long as the others in each step."""
    found = slow(span(busy))
    assert found is not None
    assert found.cause == cause


def link(ends: str, rate: float, load: float = 0.5, seconds: float = 2.0) -> LinkSpan:
    """A link that carries so many MB/s while anything is on the way."""
    busy = load * seconds
    return LinkSpan(ends[0], ends[1], int(rate * MB * busy), busy, seconds, 0)


RING = (link("ab", 700), link("bc", 500), link("cd", 900), link("da", 400))


def test_even_links() -> None:
    assert slow(span("a10 b10 c10 d10", *RING)) is None
    assert slow(span("a10 b10 c10 d10")) is None


def test_a_slow_link_and_the_network_of_a_slow_host() -> None:
    found = slow(span("a9 b9 c9 d9", *RING[1:], link("ab", 2.5)))
    assert found is not None
    assert (found.ranks, found.hosts, found.cause) == ((), ("a", "b"), "network")
    assert found.sentence == (
        "the link between a and b slows the job down: it carries 2.5 MB/s,"
        " while others carry 500 MB/s"
    )
    found = slow(span("a9 b9 c9 d9", *RING[2:], link("bc", 3.0), link("ab", 2.5, 0.2)))
    assert found is not None
    assert (found.hosts, found.sentence.partition(":")[0]) == (
        ("b",),
        "the network of b slows the job down",
    )


@pytest.mark.parametrize(
    "links",
    [
        (link("ab", 2.5, 0.05), *RING[1:]),  # nobody waits for it
        (link("ab", 0.01), *RING[1:]),  # some bytes only
        (link("ab", 150), *RING[1:]),  # not much slower
        (link("ab", 2.5), link("ba", 700)),  # nothing to compare with
        (link("ab", 2.5), link("cd", 2.5), *RING[1:], link("ac", 800), link("bd", 800)),
    ],
)
def test_links_that_are_not_called_slow(links: tuple[LinkSpan, ...]) -> None:
    assert slow(span("a9 b9 c9 d9", *links)) is None


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ({0: 0.0, 1: 0.1, 2: 3.0}, (2,)),
        ({0: 0.0, 1: 0.1, 2: 1.0}, None),
        ({0: 0.0, 1: 2.1, 2: 3.0}, None),  # two of three: which is usual?
        ({0: 0.0, 1: 1.0, 2: 3.0}, None),
        ({2: 3.0}, None),
        ({0: 0.0, 2: 3.0}, (2,)),
    ],
)
def test_who_falls_behind(after: dict[int, float], found: tuple[int, ...] | None) -> None:
    before = dict.fromkeys(range(3), 0.0)
    one = behind(before, after, 10.0, {2: "n2"})
    assert (one and one.ranks) == found
    if one is not None:
        assert one.sentence == (
            "rank 2 (n2) falls behind: its lines now come 3.0 s after the first rank's;"
            " 10 s earlier the lag was 0.0 s"
        )
