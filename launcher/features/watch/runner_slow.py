"""Warns of ranks, hosts and links for which the rest of a job waits (`--warn_slow`)."""

from __future__ import annotations

from ...head.run.events import RESULT, AlarmOver, Exit, RankOutput, RanksActive, Round
from . import runner_slowness as slowness
from .runner_slow_report import Slow
from .runner_step_activity import Spans
from .runner_steps import Steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from ...head.run.events import RunEvent
    from ...head.run.run_node import RunNode
    from ...head.run.running_ranks import Workers
    from .runner_alert_action import AlertAction
    from .runner_slowness import SlowFinding

    Subject: TypeAlias = tuple[tuple[int, ...], tuple[str, ...]]

TIMES = 4
"""Consecutive spans with a sure finding before it is reported, and without before it is over.

An evaluation on one rank, or a checkpoint, is part of one span only: no step ends during that time.
"""

WINDOW = 10
"""Steps of the first rank in which another rank falls behind, twice."""


class Streak:
    """Reports a finding that has occurred several times in a row, and its end.

    A recurring finding is reported again only after twice as many times.

    Attributes:
        found: the reported finding; None if it is over.
    """

    def __init__(self, enough: int) -> None:
        self._enough = enough
        self._last: SlowFinding | None = None
        self._count = 0
        self._told: dict[Subject, int] = {}
        self.found: SlowFinding | None = None

    def add(self, finding: SlowFinding | None) -> bool:
        """Return whether `found` has changed."""
        subject = _subject(finding)
        weight = finding.weight if finding is not None else slowness.SURE
        self._count = weight + (self._count if subject == _subject(self._last) else 0)
        self._last = finding
        told = self._told.get(subject, 0)
        if self._count < self._enough << told or subject == _subject(self.found):
            return False
        self._told[subject] = told + bool(finding)
        self.found = finding
        return True


def _subject(finding: SlowFinding | None) -> Subject:
    """Return the slow ranks and hosts, independent of the cause."""
    return (finding.ranks, finding.hosts) if finding is not None else ((), ())


class SlowWatch:
    """Watches one run."""

    def __init__(
        self,
        clock: Callable[[], float],
        nodes: Sequence[RunNode],
        workers: Workers,
        found: list[object],
        action: AlertAction,
        tell: Callable[[RunEvent], None],
    ) -> None:
        """Watch a run from its start.

        Args:
            clock: the loop's.
            nodes: all nodes of the run.
            workers: the running workers.
            found: collects the findings for the report.
            action: reports a finding.
            tell: reports the end of a finding to observers.
        """
        self._clock, self._nodes, self._workers = clock, nodes, workers
        self._found, self._action, self._tell = found, action, tell
        self._hosts: dict[str, str] = {}
        self._spans = Spans(self._hosts)
        self._start_round()

    def _start_round(self) -> None:
        """Begin again with other workers."""
        self._spans.reset()
        self._steps = Steps()
        self._waited_for = Streak(TIMES * slowness.SURE)
        self._late = Streak(2 * slowness.SURE)
        self._lags: tuple[float, int, dict[int, float]] | None = None

    def on_event(self, event: RunEvent) -> None:
        """Record the output and activity of ranks."""
        now = self._clock()
        if type(event) is RankOutput:
            if event.stream != RESULT:
                self._steps.feed(event.rank, event.stream, event.data, now)
        elif type(event) is RanksActive:
            self._on_activity(event, now)
        elif type(event) is Round:
            self._start_round()
        elif type(event) is Exit:
            self._spans.reset()

    def _on_activity(self, event: RanksActive, now: float) -> None:
        if not self._hosts:
            self._hosts.update(_addresses(self._nodes))
        count = self._steps.count
        span = self._spans.add(event.host, event.activity, now, count)
        if span is not None:
            self._judge(self._waited_for, slowness.slow(span), now)
        self._compare(self._steps.best.lags(now), count, now)

    def _compare(self, lags: dict[int, float], count: int, now: float) -> None:
        """Look for a rank that falls behind, once every few steps."""
        if self._lags is None:
            self._lags = (now, count, lags) if len(lags) > 1 else None
            return
        began, before, known = self._lags
        if count >= before + WINDOW:
            hosts = {one.rank: one.host for one in self._workers.running}
            self._lags = now, count, lags
            self._judge(self._late, slowness.behind(known, lags, now - began, hosts), now)

    def _judge(self, streak: Streak, finding: SlowFinding | None, now: float) -> None:
        before = streak.found
        if not streak.add(finding):
            return
        found = self._found
        if before is not None:
            found[:] = [_ended(one, before.sentence, now) for one in found]
            self._tell(AlarmOver("slow", f"no longer: {before.sentence}"))
        if finding is not None:
            found.append(Slow(now, finding.sentence, finding.cause, finding.ranks, finding.hosts))
            self._action.perform("slow", "report", finding.sentence)


def _ended(one: object, sentence: str, now: float) -> object:
    """Return a finding, over as of now if it is the one with this sentence."""
    if isinstance(one, Slow) and one.sentence == sentence:
        return one._replace(until=one.until or now)
    return one


def _addresses(nodes: Sequence[RunNode]) -> dict[str, str]:
    return {address: node.name for node in nodes if node.hello for address in node.hello.addresses}
