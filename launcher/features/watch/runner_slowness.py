"""The rank, host or link that the others wait for, from one span of a job, and the cause. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...resources.ranges import show_slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...head.report.json_types import SlowCause
    from .runner_step_activity import LinkSpan, Span

BUSY = 0.7
"""Minimum share of time that a rank is busy if all others wait for it."""

IDLER, MUCH_IDLER = 0.7, 0.5
"""Greatest ratio of other ranks' busy time to a slow rank's: for a finding, and a certain one."""

SURE = 3
"""The weight of a certain finding; any other finding weighs 1."""

CAUSE = 0.15
"""Least share of the time for a cause."""

LITTLE = 0.01
"""The share of the time for which idle ranks count as running."""

SENT = 64 * 1024
"""Least bytes in a span for a comparison of a link with others."""

LOADED, NOTICED = 0.3, 0.1
"""Shares of the time for which bytes are in transit over a slow link for which ranks wait: over one
of several that are slow for one reason, and over each."""

SLOWER = 5.0
"""Minimum factor by which other links are faster than a slow one."""

BEHIND = 0.2
"""Seconds per second by which a slow rank falls behind if the others do not wait for it."""

TOGETHER = 0.05
"""The largest such share for all other links."""


class SlowFinding(NamedTuple):
    """A slow rank, host or link.

    Attributes:
        ranks: the slow ranks, () for a link.
        hosts: the hosts of these ranks, or the ends of the link.
        cause: the reason, as in the report.
        sentence: the finding, for people.
        weight: its weight among equal findings in a row.
    """

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    cause: SlowCause
    sentence: str
    weight: int = SURE


def slow(span: Span) -> SlowFinding | None:
    """Return the slow ranks or link of a span, None if nothing stands out."""
    ranks = tuple(rank for rank, one in span.ranks.items() if one.busy >= BUSY)
    others = [one.busy for one in span.ranks.values() if one.busy < BUSY]
    if ranks and others and _belong_together(span, ranks):
        least = min(span.ranks[rank].busy for rank in ranks)
        if max(others) <= IDLER * least:
            return _rank_finding(span, ranks, least, max(others))
    return _slow_link(span.links)


def _belong_together(span: Span, ranks: tuple[int, ...]) -> bool:
    """Return whether these are one rank, or all ranks of a host."""
    host = span.ranks[ranks[0]].host
    return len(ranks) == 1 or set(ranks) == {
        rank for rank, one in span.ranks.items() if one.host == host
    }


def _rank_finding(span: Span, ranks: tuple[int, ...], busy: float, others: float) -> SlowFinding:
    host = span.ranks[ranks[0]].host
    cause, why = _cause(span, ranks, host)
    name = f"rank{'s' if len(ranks) > 1 else ''} {show_slots(sorted(ranks))} ({host})"
    verb = "slow" if len(ranks) > 1 else "slows"
    sentence = (
        f"{name} {verb} the job down: busy for {busy:.0%} of the time,"
        f" while the others wait and are busy for at most {others:.0%}; {why}"
    )
    weight = SURE if others <= MUCH_IDLER * busy else 1
    return SlowFinding(tuple(sorted(ranks)), (host,), cause, sentence, weight)


def _cause(span: Span, ranks: Sequence[int], host: str) -> tuple[SlowCause, str]:
    throttled = span.throttled.get(host, 0.0)
    rows = [span.ranks[rank] for rank in ranks]
    waited = _mean(row.waited for row in rows)
    if throttled >= CAUSE:
        share = f"{min(1.0, throttled):.0%} of the time"
        return "quota", f"the CPU quota of {host} stopped it for {share}"
    if all(row.blocked for row in rows):
        return "disk", "it waits for a disk or a network file system"
    if waited >= CAUSE and _lacks_cpu(span, ranks, waited):
        why = f"it waits for a CPU {waited:.0%} of the time, while other threads on {host} use it"
        return "cpu", why
    return "work", "it has more work than the others, or its CPU is slower"


def _lacks_cpu(span: Span, ranks: Sequence[int], waited: float) -> bool:
    """Return whether these ranks stand out by waiting for a CPU, not by their own work.

    A rank that only lacks a CPU runs no longer than the others in each step. If all CPUs are busy,
    all ranks wait, in proportion to their work.
    """
    others = [one for rank, one in span.ranks.items() if rank not in ranks]
    ran = _mean(span.ranks[rank].ran for rank in ranks)
    usual = sum(one.waited for one in others) / max(sum(one.ran for one in others), LITTLE)
    return waited - usual * ran > ran - max(one.ran for one in others)


def _mean(values: Iterable[float]) -> float:
    known = [*values]
    return sum(known) / len(known)


def _slow_link(links: Sequence[LinkSpan]) -> SlowFinding | None:
    """Return the slow link, or the host to and from which all links are slow."""
    compared = sorted((one for one in links if one.sent >= SENT), key=lambda one: one.rate)
    if len({end for one in compared for end in (one.host, one.peer)}) < 3:
        return None
    usual = compared[-1 - len(compared) // 4].rate
    slow = [one for one in compared if one.rate * SLOWER <= usual and one.load >= NOTICED]
    common = set.intersection(*({one.host, one.peer} for one in slow)) if slow else set()
    if not common or max(one.load for one in slow) < LOADED:
        return None
    hosts = tuple(sorted(common))
    name = f"network of {hosts[0]}" if len(hosts) == 1 else f"link between {' and '.join(hosts)}"
    rates = f"{_rate(slow[0].rate)}, while others carry {_rate(usual)}"
    return SlowFinding((), hosts, "network", f"the {name} slows the job down: it carries {rates}")


def _rate(rate: float) -> str:
    return f"{rate / 1e6:.3g} MB/s"


def behind(
    before: Mapping[int, float],
    after: Mapping[int, float],
    seconds: float,
    hosts: Mapping[int, str],
) -> SlowFinding | None:
    """Return the rank that falls behind, from the lag of each at two times."""
    both = before.keys() & after.keys()
    growth = {rank: (after[rank] - before[rank]) / seconds for rank in both}
    late = [rank for rank, one in growth.items() if one >= BEHIND]
    even = [rank for rank, one in growth.items() if one <= TOGETHER]
    if len(late) != 1 or len(late) + len(even) < max(2, len(growth)):
        return None
    rank, host = late[0], hosts.get(late[0], "?")
    sentence = (
        f"rank {rank} ({host}) falls behind: its lines now come {after[rank]:.1f} s after the first"
        f" rank's; {seconds:.0f} s earlier the lag was {before[rank]:.1f} s"
    )
    return SlowFinding((rank,), (host,), "behind", sentence)
