"""Watches the output of a run by rules: required lines, and numbers in them."""

from __future__ import annotations

from functools import partial

from ...common.text import plain
from ...head.run.events import RESULT, Exit, JobEnded, RankOutput
from ...specs.policies import EXPECT
from .runner_lines import OutputLines
from .runner_rule_state import RuleState
from .runner_time_limit import TimeLimit, TooSlow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...common.loop import Loop, Timer
    from ...head.run.events import RunEvent
    from ...specs.policies import Rule
    from .runner_alert_action import AlertAction
    from .runner_rule_state import RuleFinding

LOOK = 5.0
"""Maximum time between two checks, in seconds, if all limits are longer: a line between two checks
moves the deadline of the next one. A late check shows that this process stood still (Ctrl-Z) and
read nothing, which is not the workers' fault."""

LATE = 1.0
"""Seconds from which on a look is late."""

SEARCH = 0.2
"""Seconds of processor time for the search in one block of output."""


class RuleWatch:
    """Applies all rules of a job; times count while all of its workers run."""

    def __init__(
        self,
        rules: Sequence[Rule],
        loop: Loop,
        log: Callable[[str, str], None],
        action: AlertAction,
        begins: type,
    ) -> None:
        """Watch a run that has not started.

        Args:
            rules: the rules to check.
            loop: the run's.
            log: prints a message, given its text and level.
            action: acts on findings.
            begins: the kind of event from which times count.
        """
        self._loop, self._log = loop, log
        self._states = [RuleState(rule) for rule in rules]
        self._expected = [state for state in self._states if state.rule.name == EXPECT]
        self._begins = begins
        self._lines = OutputLines()
        self._limit = TimeLimit(SEARCH)
        self._action = action
        limits = [one for s in self._states for one in (s.rule.within, s.rule.every) if one]
        self._between = min(LOOK, *limits) if limits else 0.0
        self._timer: Timer | None = None
        self._due = 0.0

    def on_event(self, event: RunEvent) -> None:
        """Examine output as it arrives; once a worker has ended, no line is awaited."""
        if type(event) is RankOutput:
            self._on_output(event)
        elif type(event) is self._begins:
            self._start_round()
        elif type(event) in {Exit, JobEnded}:
            self._pause()

    def _start_round(self) -> None:
        self._pause()
        self._lines.clear()
        for state in self._states:
            state.start(self._loop.clock())
        if self._between:
            self._check_later()

    def _pause(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_output(self, event: RankOutput) -> None:
        if event.stream == RESULT:
            return
        lines = self._lines.add(event.rank, event.stream, event.data)
        if not lines:
            return
        now = self._loop.clock()
        for state in tuple(self._states):
            try:
                found = self._limit.call(partial(_found, state, event, lines, now))
            except TooSlow:
                self._stop_rule(state, event.rank)
            else:
                self._act(state, found)

    def _stop_rule(self, state: RuleState, rank: int) -> None:
        """Go on without a rule whose expression takes too long."""
        self._states.remove(state)
        self._log(
            f"{state.rule.name}: no longer watched: the search for '{plain(state.rule.expect)}'"
            f" in output of rank {rank} took longer than {self._limit.seconds:g} s",
            "warning",
        )

    def moved(self) -> bool:
        """Return whether an expected line was certainly printed in this round."""
        return any(one.matched or one not in self._states for one in self._expected)

    def _act(self, state: RuleState, findings: Iterable[RuleFinding]) -> None:
        for finding in findings:
            if finding.broken:
                self._action.perform("rule", state.rule.then, finding.text, finding.sign)
            else:
                self._log(finding.text, "info")

    # -- times ------------------------------------------------------------------------------

    def _check_later(self) -> None:
        now = self._loop.clock()
        dues = [state.due for state in self._states]
        self._due = max(now, min([now + self._between, *dues]))
        self._timer = self._loop.call_later(self._due - now, self._check)

    def _check(self) -> None:
        now = self._loop.clock()
        late = now - self._due
        for state in tuple(self._states):
            if late > LATE:
                state.still(late)
            self._act(state, state.missed(now))
        if self._timer is not None:
            self._check_later()


def _found(state: RuleState, event: RankOutput, lines: bytes, now: float) -> list[RuleFinding]:
    return list(state.take(event, lines, now))
