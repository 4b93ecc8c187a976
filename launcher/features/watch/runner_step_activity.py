"""The activity of ranks and links between two steps of a job, from its nodes' ACTIVITY. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    from ...control.activity_messages import Activity, LinkActivity, RankActivity

    Key: TypeAlias = tuple[str, int]

LEAST = 0.9
"""Least seconds of a span."""


class RankSpan(NamedTuple):
    """The activity of a rank, as shares of the time.

    Attributes:
        busy: its main thread ran, or was ready to, or waited for a disk.
        waited: its main thread was ready without a CPU.
        blocked: whether it waited for a disk at both ends of the span.
    """

    host: str
    busy: float
    waited: float
    blocked: bool

    @property
    def ran(self) -> float:
        """The share of the time for which its main thread ran."""
        return max(0.0, self.busy - self.waited)


class LinkSpan(NamedTuple):
    """The traffic from one host to another.

    Attributes:
        sent: bytes.
        busy: seconds for which bytes were in transit.
        resent: segments that were sent again.
    """

    host: str
    peer: str
    sent: int
    busy: float
    seconds: float
    resent: int

    @property
    def load(self) -> float:
        """The share of the time for which bytes were on the way."""
        return self.busy / self.seconds

    @property
    def rate(self) -> float:
        """Bytes a second while bytes were in transit."""
        return self.sent / max(self.busy, 0.001)


class Span(NamedTuple):
    """The time between two reports of all nodes, in which the job made steps.

    Attributes:
        seconds: the duration on the runner's clock.
        throttled: by host, the share of the time for which its CPU quota stopped threads, summed
            over CPUs.
    """

    steps: int
    seconds: float
    ranks: Mapping[int, RankSpan]
    throttled: Mapping[str, float]
    links: tuple[LinkSpan, ...]


class Spans:
    """Makes spans from the nodes' reports."""

    def __init__(self, hosts: Mapping[str, str]) -> None:
        """Begin; `hosts` has the host of each address."""
        self._hosts = hosts
        self.reset()

    def reset(self) -> None:
        """Begin again: other workers run."""
        self._old: dict[Key, Activity] = {}
        self._new: dict[Key, Activity] = {}
        self._began: tuple[float, int] | None = None

    def add(self, host: str, activity: Activity, now: float, steps: int) -> Span | None:
        """Add a report; return a span if this report completes one.

        `steps` is the number of steps that the job has made.
        """
        if not activity.ranks:
            return None
        key = host, activity.ranks[0].rank
        self._old.setdefault(key, activity)
        self._new[key] = activity
        began, before = self._began = self._began or (now, steps)
        short = any(new.clock - self._old[one].clock < LEAST for one, new in self._new.items())
        if short or steps <= before:
            return None
        span = self._span(steps - before, now - began)
        self._old, self._began = dict(self._new), (now, steps)
        return span

    def _span(self, steps: int, seconds: float) -> Span:
        pairs = [(key[0], self._old[key], new) for key, new in self._new.items()]
        return Span(
            steps,
            seconds,
            {rank: one for pair in pairs for rank, one in _ranks(*pair)},
            {host: _throttled(old, new) for host, old, new in pairs},
            tuple(one for pair in pairs for one in self._links(*pair)),
        )

    def _links(self, host: str, old: Activity, new: Activity) -> Iterator[LinkSpan]:
        known = {link.peer: link for link in old.links}
        for link in new.links:
            peer, before = self._hosts.get(link.peer), known.get(link.peer)
            if peer and before and peer != host and link.sent > before.sent:
                yield _link(host, peer, before, link, new.clock - old.clock)


def _link(host: str, peer: str, old: LinkActivity, new: LinkActivity, seconds: float) -> LinkSpan:
    busy, resent = new.busy - old.busy, new.resent - old.resent
    return LinkSpan(host, peer, new.sent - old.sent, max(0.0, busy), seconds, max(0, resent))


def _throttled(old: Activity, new: Activity) -> float:
    return max(0.0, new.throttled - old.throttled) / (new.clock - old.clock)


def _ranks(host: str, old: Activity, new: Activity) -> Iterator[tuple[int, RankSpan]]:
    known = {(row.rank, row.pid): row for row in old.ranks}
    stopped = min(1.0, _throttled(old, new)) / len(new.ranks)
    for row in new.ranks:
        if (row.rank, row.pid) in known:
            yield (
                row.rank,
                _rank(host, known[row.rank, row.pid], row, new.clock - old.clock, stopped),
            )


def _rank(
    host: str, old: RankActivity, new: RankActivity, seconds: float, stopped: float
) -> RankSpan:
    ran = max(0.0, new.main - old.main) / seconds
    # Whether a thread that a quota has stopped counts as ready depends on the kernel.
    waited = max((new.waited - old.waited) / seconds, stopped)
    blocked = old.state == new.state == "D"
    return RankSpan(host, 1.0 if blocked else min(1.0, ran + waited), waited, blocked)
