"""How a run handles the signals that this process receives."""

from __future__ import annotations

import signal
from enum import Enum

from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..stacks.view import RankView
    from .run import Run


class StopStep(Enum):
    """What to do at a signal that ends the run."""

    STOP = "stop"
    KILL = "kill"
    LEAVE = "leave at once"


class StopRequests:
    """Counts interrupts: the first stops with grace, the second kills, the third exits at once."""

    def __init__(self) -> None:
        self._interrupts = 0

    def next(self, number: int) -> StopStep:
        """Return what to do at this signal, given those before it."""
        self._interrupts += number == signal.SIGINT
        if self._interrupts > 2:
            return StopStep.LEAVE
        return StopStep.KILL if self._interrupts == 2 else StopStep.STOP


class RunSignals:
    """Handles signals for one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._requests = StopRequests()

    def end(self, number: int, why: str = "") -> None:
        """Handle a signal that ends the run; `why` is told in its place if nobody has sent it."""
        run = self._run
        if run.ending:
            return
        run.record.stopped_by(number, why)
        if not run.started:
            run.end()
            return
        match self._requests.next(number):
            case StopStep.LEAVE:
                run.log(f"exiting now; may still be running on: {self._unfinished()}", "error")
                run.abandon()
            case StopStep.KILL:
                run.warn("killing all ranks now")
                run.stop(number, 0.0)
            case StopStep.STOP:
                self._stop(number, why or signal.Signals(number).name)

    def _stop(self, number: int, why: str) -> None:
        more = "; interrupt again to kill them now" if number == signal.SIGINT else ""
        ranks = f"{why}: stopping {self._run.plan.world_size} ranks"
        self._run.warn(f"{ranks}, grace {self._run.grace:g} s{more}")
        self._run.stop(number)

    def _unfinished(self) -> str:
        return ", ".join(node.name for node in self._run.nodes if not node.over) or "none"

    def pass_on(self, number: int) -> None:
        """Handle a signal that does not end the run."""
        if self._run.ending:
            return
        if number in {signal.SIGUSR1, signal.SIGUSR2}:
            self._run.send(self._run.nodes, frames.pack(frames.SIGNAL, bytes([number])))
        elif number == signal.SIGTSTP:
            self._run.fleet.suspend()
        elif number == signal.SIGQUIT:
            # The user has asked for it, so it is printed at every --log_level.
            self._run.log(self.progress(), "error")
            self._show_stacks()

    def progress(self) -> str:
        """Return which ranks run where, or before the start which hosts are waited for."""
        run = self._run
        return run.workers.table() if run.started else run.startup.words

    def _show_stacks(self) -> None:
        """Print where the running ranks are, as soon as their nodes have told."""
        run = self._run
        if run.workers.running:
            from ..stacks.collect import collect
            from ..stacks.show import Shown

            def show(views: Mapping[int, RankView]) -> None:
                run.log(Shown(views).text(gap="\n"), "error")

            collect(run.fleet, run.nodes, run.workers, show)

    def on_broken_output(self) -> None:
        """Stop the run: the reader of its output has gone."""
        self._run.record.broken_pipe = True
        if self._run.started and not self._run.ending:
            self._run.stop(signal.SIGTERM)
