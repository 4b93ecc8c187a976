"""`--hang_timeout`: detects that a job hangs, and names the rank that the others wait for.

It first uses cheap signs: the nodes' reports about their workers. If some rank has done nothing for
half of the timeout, the stacks of all ranks are sampled; and again at the end of the timeout.
"""

from __future__ import annotations

from ...common.records import NamedTuple
from ...head.run.events import Exit, JobEnded, RanksActive, Round, Started
from ...head.run.run_node import NodeState
from .runner_idle_times import RankIdleTimes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from typing import Protocol

    from ...common.loop import Loop
    from ...head.fleet.node_queries import NodeQuestion
    from ...head.run.events import RunEvent
    from ...head.run.run_node import RunNode
    from ...head.run.running_ranks import Workers
    from ...specs.policies import WatchPolicy
    from ..stacks.runner_culprit import WaitExplanation
    from ..stacks.runner_view import RankView
    from .runner_hang_incident import HangIncident
    from .runner_stack_sampling import StackSampling

    class TakeStacks(Protocol):
        """Asks the nodes where all ranks are."""

        def __call__(
            self, answered: Callable[[Mapping[int, RankView]], None], *, save: bool = False
        ) -> NodeQuestion:
            """Call `answered` with a view of each rank; `save` writes them to files as well."""
            ...


LATE = 1.0
"""Seconds by which a look at the clock may be late before it is taken for a time in which this
process was stopped (Ctrl-Z)."""

SOONEST = 0.05
"""Least seconds between two looks at the clock."""


class HangReport(NamedTuple):
    """The means to report a hang.

    Attributes:
        policy: the watches that the user has requested.
        found: gets all hangs, for the report of the job.
        log: prints a message, given its text and level.
        tell: passes an event to the observers.
        act: reacts to a hang, given its kind, one of `ALERT_ACTIONS` and a sentence.
        take_stacks: asks for the stacks of all ranks.
    """

    job_id: str
    policy: WatchPolicy
    found: list[object]
    log: Callable[[str, str], None]
    tell: Callable[[RunEvent], None]
    act: Callable[[str, str, str], None]
    take_stacks: TakeStacks


class HangWatch:
    """Watches one run for hangs."""

    def __init__(
        self,
        loop: Loop,
        nodes: Sequence[RunNode],
        workers: Workers,
        report: HangReport,
        exempt: Callable[[], bool],
        read: Callable[[], tuple[float, float]],
    ) -> None:
        """Watch a run that has not started.

        Args:
            loop: the run's.
            nodes: all nodes of the run.
            workers: the running workers.
            report: samples stacks, and reports a hang.
            exempt: returns whether progress of the run is not expected, or not visible.
            read: returns the times of the last question for stacks and of its answer.
        """
        self._loop, self._nodes, self._workers = loop, nodes, workers
        self._report, self._exempt, self._read = report, exempt, read
        policy = report.policy
        self._timeout, self._interval = policy.hang_timeout, policy.sample
        self._idle_times = RankIdleTimes(policy.sample, policy.hang_timeout / 4)
        self._ended: dict[int, str] = {}
        self._sampling: StackSampling | None = None
        self._found: HangIncident | None = None
        self._answered: set[Hashable] = set()
        self._asked = False
        self._timer = self._loop.call_later(0.0, self._rest)
        self._expected = 0.0

    # -- knowledge about the ranks -----------------------------------------------------------

    def on_event(self, event: RunEvent) -> None:
        kind = type(event)
        if isinstance(event, RanksActive):
            now = self._loop.clock()
            self._idle_times.take(event.host, event.activity, now, self._read())
        elif isinstance(event, Exit):
            self._idle_times.remove(event.rank)
            if not event.code and not event.stopped:
                self._ended[event.rank] = event.host
        elif kind is Started or kind is Round:
            self._start_round()
        elif kind is JobEnded:
            self._timer.cancel()

    def _start_round(self) -> None:
        self._idle_times.clear()
        self._ended.clear()
        self._reset()
        self._rest()

    def _reset(self) -> None:
        """Count no time before now."""
        now = self._loop.clock()
        self._restart_times(now)
        if self._found is not None:
            self._found.over(now)
        self._found = None

    def _restart_times(self, now: float) -> None:
        """Count no time before now, as this process was stopped; findings stay."""
        self._idle_times.restart(now)
        self._sampling = None

    def _rest(self, seconds: float = SOONEST) -> None:
        """Check the clock after this number of seconds."""
        self._timer.cancel()
        self._expected = self._loop.clock() + seconds
        self._timer = self._loop.call_later(seconds, self._look_at_clock)

    # -- looking ----------------------------------------------------------------------------

    def _look_at_clock(self) -> None:
        now = self._loop.clock()
        due = self._interval
        if self._excused(now):
            self._reset()
        elif self._late(now) > LATE:
            self._make_up(now)
        elif self._found is not None:
            self._follow(now)
        elif not self._asked:
            due = self._due(now)
        self._rest(max(SOONEST, min(due, self._interval)))

    def _excused(self, now: float) -> bool:
        """Return whether progress is not expected, or not visible."""
        return self._exempt() or self._idle_times.traced(now) or self._starts()

    def _starts(self) -> bool:
        """Return whether a node has not started its workers yet, as during a preload."""
        began = self._workers.began
        return any(one.state is NodeState.RUNNING and not began(one) for one in self._nodes)

    def _late(self, now: float) -> float:
        """Return the time for which this process was stopped, or had no CPU."""
        return now - self._expected

    def _make_up(self, now: float) -> None:
        """Leave out the time for which this process did not run; after a long one begin again.

        Activity of ranks in that time is in the counts that their nodes report next.
        """
        late = self._late(now)
        if late > self._timeout / 2:
            self._restart_times(now)
            return
        self._idle_times.skip(late, now)
        if self._sampling is not None:
            self._sampling.skip(late)
        self._expected = now

    def _follow(self, now: float) -> None:
        """Check whether a job that hung continues."""
        assert self._found is not None
        if not self._asked and self._found.is_to_see(self._idle_times, now):
            self._ask()

    def _due(self, now: float) -> float:
        """Return the seconds until the next stack sample; take it if due now."""
        idle = max(self._idle_times.longest(now), *self._silences(now).values(), 0.0)
        if self._sampling is None:
            longest = max(idle, self._idle_times.still(now))
            if longest < self._timeout / 2:
                return self._timeout / 2 - longest
            from .runner_stack_sampling import StackSampling

            self._sampling = StackSampling(self._timeout)
        due = self._sampling.due(self._idle_times, idle, now)
        if due <= 0:
            self._ask()
        return due

    def _silences(self, now: float) -> dict[str, float]:
        """Return the silence of each node with running ranks, in seconds."""
        hosts = {one.host for one in self._workers.running}
        heard = {
            one.name: one.connection.heard()
            for one in self._nodes
            if not one.over and one.name in hosts
        }
        return {name: now - at for name, at in heard.items() if at is not None}

    def _ask(self) -> None:
        self._asked = True
        self._report.take_stacks(self._on_stacks)

    def _on_stacks(self, views: Mapping[int, RankView]) -> None:
        self._asked = False
        now = self._loop.clock()
        if self._excused(now) or self._late(now) > self._timeout / 2:
            return
        if self._late(now) > LATE:
            self._make_up(now)
        seen = self._with_times(views, now)
        if self._found is not None:
            self._see_again(self._found, seen, now)
        elif self._sampling is not None:
            known = self._sampling.sample(seen, now)
            if known is not None:
                self._take(known, seen, now)

    def _take(self, known: WaitExplanation, views: Mapping[int, RankView], now: float) -> None:
        """Report a hang; not one in doubt whose ranks continued from there before."""
        from .runner_hang_incident import HangIncident, places_of

        if known.doubt and places_of(known, views) in self._answered:
            return
        self._sampling = None
        self._found = HangIncident(self._report, known, views, self._ended, now)

    def _see_again(self, found: HangIncident, views: Mapping[int, RankView], now: float) -> None:
        if found.goes_on(views, self._idle_times, now):
            if found.known.doubt:
                self._answered.add(found.places)
            self._found = None
            self._reset()

    def _with_times(self, views: Mapping[int, RankView], now: float) -> dict[int, RankView]:
        """Return the views with each rank's time without activity.

        A silent node has been silent for longer than the question lasted: use the silence.
        """
        silences = self._silences(now)
        seen = {}
        for rank, view in views.items():
            idle, silent = self._idle_times.idle(rank, now), silences.get(view.host, 0.0)
            if view.problem and silent > idle:
                problem = f"{view.host} has not answered for {silent:.0f} s"
                seen[rank] = view._replace(idle=silent, problem=problem)
            else:
                seen[rank] = view._replace(idle=idle, still=self._idle_times.still_of(rank, now))
        return seen
