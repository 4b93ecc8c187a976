"""What a run does at the signals that this process receives."""

from __future__ import annotations

import signal
from enum import Enum

from ...control import frames
from .run_view import RunPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .run_state import RunState


class StopStep(Enum):
    """What to do at a signal that ends the run."""

    STOP = "stop"
    KILL = "kill"
    LEAVE = "leave at once"


class StopRequests:
    """Counts interrupts: the first stops with grace, the second kills, the third exits at once."""

    def __init__(self) -> None:
        self._interrupts = 0
        self._told: set[int] = set()

    def are_told(self, number: int) -> bool:
        """Return whether a line says that this signal stops the run: one does, not the next."""
        new = number not in self._told
        self._told.add(number)
        return new

    def next(self, number: int) -> StopStep:
        """Return what to do at this signal, given those before it."""
        self._interrupts += number == signal.SIGINT
        if self._interrupts > 2:
            return StopStep.LEAVE
        return StopStep.KILL if self._interrupts == 2 else StopStep.STOP


def on_end_signal(run: RunState, number: int, why: str = "") -> None:
    """Handle a signal that ends the run; `why` is told in its place if nobody has sent it."""
    if run.phase is RunPhase.OVER:
        run.record.stopped_late(number, why)
        return
    if run.ending:
        on_late_signal(run, number, why)
        return
    run.record.stopped_by(number, why)
    if not run.started:
        run.end()
        return
    match run.interrupts.next(number):
        case StopStep.LEAVE:
            run.log(f"exiting now; may still be running on: {_unfinished(run)}", "error")
            run.abandon()
        case StopStep.KILL:
            run.warn("killing all ranks now")
            run.stop(number, 0.0)
        case StopStep.STOP:
            if run.interrupts.are_told(number):
                _tell(run, number, why or signal.Signals(number).name)
            run.stop(number)


def on_late_signal(run: RunState, number: int, why: str = "") -> None:
    """Handle a signal that is heard of while it is asked why all workers have ended: it may be."""
    if run.record.asks_allocation and run.record.ended_well:
        run.record.stopped_by(number, why)
        run.record.asks_allocation = False
        run.end_if_explained()


def on_allocation(run: RunState, end: str) -> None:
    """Handle the answer to whether the allocation has ended: that is SIGTERM to all of the job."""
    run.record.asks_allocation = False
    if end and not run.record.stop_signal:
        run.warn(f"{end}, and the ranks with it")
        run.record.stopped_by(signal.SIGTERM, "")
    run.end_if_explained()


def _tell(run: RunState, number: int, why: str) -> None:
    more = "; interrupt again to kill them now" if number == signal.SIGINT else ""
    ranks = f"{why}: stopping {run.plan.world_size} ranks"
    run.warn(f"{ranks}, grace {run.grace:g} s{more}")


def _unfinished(run: RunState) -> str:
    return ", ".join(node.name for node in run.nodes if not node.over) or "none"


def on_other_signal(run: RunState, number: int) -> None:
    """Handle a signal that does not end the run."""
    if run.ending:
        return
    if number in {signal.SIGUSR1, signal.SIGUSR2}:
        signal_ranks(run, number)
    elif number == signal.SIGTSTP:
        run.do(run.act.suspend)
    elif number == signal.SIGQUIT:
        # The user has asked for it, so it is printed at every --log_level.
        run.log(progress(run), "error")
        if run.workers.running:
            run.do(run.act.show_stacks, run.nodes, run.workers)


def signal_ranks(run: RunState, number: int) -> None:
    """Send every worker a signal."""
    run.send(run.nodes, frames.pack(frames.SIGNAL, bytes([number])))


def progress(run: RunState) -> str:
    """Return which ranks run where, or before the start which hosts are waited for."""
    return run.workers.table() if run.started else run.startup.words


def on_broken_output(run: RunState) -> None:
    """Stop the run: the reader of its output has gone."""
    run.record.broken_pipe = True
    if run.started and not run.ending:
        run.stop(signal.SIGTERM)
