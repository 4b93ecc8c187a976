"""The timelines of the roles of one job, as one: a host has a row for each role that it runs."""

from __future__ import annotations

from .runner_timeline import Timeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...head.run.run_view import ObservedRun
    from .runner_timeline import TimelineMark, WorkerSpan

MOST_RANKS = 1 << 20
"""Limit on the ranks of a role, whose numbers start at a multiple of this."""


class RolesTimeline:
    """Observes the runs of all roles; like a `Timeline`, with the role in each name.

    Attributes:
        parts: the timeline of each role, by its name.
    """

    def __init__(self, clock: Callable[[], float], ends: Mapping[str, str]) -> None:
        """Observe from now on.

        Args:
            clock: the loop's.
            ends: the effect of each role's clean end, as in `RoleSpec`, by its name.
        """
        self.parts = {name: Timeline(clock) for name in ends}
        self._whole = Timeline(clock)
        self._serving = {name for name, how in ends.items() if how == "never"}
        wanted = "job" if "job" in ends.values() else "wait"
        self._working = {name for name, how in ends.items() if how == wanted}

    def restart(self, role: str) -> None:
        """Mark another start of a role, unless it is the first one."""
        if self.parts[role].hosts:
            self.parts[role].mark("round", "starting again")

    def observe(self, run: ObservedRun) -> None:
        """Observe a run of a role, before it begins."""
        self.restart(run.role)
        run.observe(self.parts[run.role].on_event)

    @property
    def now(self) -> float:
        """Seconds since the job began."""
        return self._whole.now

    @property
    def hosts(self) -> list[str]:
        """The roles and hosts, in the order of the roles."""
        return [f"{role}/{host}" for role, one in self.parts.items() for host in one.hosts]

    @property
    def keep(self) -> int:
        """Bytes of its newest output that are kept of each rank."""
        return max(one.keep for one in self.parts.values())

    @property
    def findings(self) -> list[str]:
        """The warnings of the quick check."""
        every = self.parts.values()
        return list(dict.fromkeys(line for one in every for line in one.findings))

    @property
    def dropped(self) -> int:
        """The number of spans and marks that were dropped."""
        return sum(one.dropped for one in self.parts.values())

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of roles, hosts and ranks."""
        every = self.parts.values()
        hosts = {host for one in every for host in one.hosts}
        ranks = sum(one.world_size for one in every)
        return {"roles": len(every), "hosts": len(hosts), "ranks": ranks}

    @property
    def world_size(self) -> int:
        """The ranks of the roles whose end is the end of the job."""
        return sum(self.parts[role].world_size for role in self._working)

    @property
    def round(self) -> int:
        """None: each role has separate rounds."""
        return 0

    @property
    def restarts(self) -> int:
        """The number of restarts of workers of all roles after failures."""
        return sum(one.restarts for one in self.parts.values())

    @property
    def all_spans(self) -> list[WorkerSpan]:
        """The lives of the workers of all roles."""
        return [span for role in self.parts for span in self._spans(role)]

    @property
    def working_spans(self) -> list[WorkerSpan]:
        """The spans of the roles whose end is the end of the job."""
        return [span for role in self._working for span in self._spans(role)]

    @property
    def all_marks(self) -> list[TimelineMark]:
        """All marks, in order of time."""
        every = self.parts.items()
        found = (self._mark(role, mark) for role, one in every for mark in one.all_marks)
        return sorted(found, key=lambda mark: mark.at)

    def number(self, rank: int) -> int:
        """Return the rank in its role of one of the ranks of all roles."""
        return rank % MOST_RANKS

    def serves(self, rank: int) -> bool:
        """Return whether a rank of all roles belongs to a service."""
        return [*self.parts][rank // MOST_RANKS] in self._serving

    def tail(self, rank: int) -> list[tuple[str, str]]:
        """Return the newest output of a rank of all roles, as `Timeline.tail`."""
        at, own = divmod(rank, MOST_RANKS)
        return [*self.parts.values()][at].tail(own)

    def _of_all(self, role: str, rank: int) -> int:
        return [*self.parts].index(role) * MOST_RANKS + rank

    def _spans(self, role: str) -> Iterable[WorkerSpan]:
        spans = self.parts[role].all_spans
        return (
            one._replace(rank=self._of_all(role, one.rank), host=f"{role}/{one.host}")
            for one in spans
        )

    def _mark(self, role: str, mark: TimelineMark) -> TimelineMark:
        host = f"{role}/{mark.host}" if mark.host else ""
        rank = None if mark.rank is None else self._of_all(role, mark.rank)
        return mark._replace(words=f"{role}: {mark.words}", host=host, rank=rank)
