"""Handlers of the signals that the runner receives during a run."""

from __future__ import annotations

import signal
from enum import Enum

from ...control import frames
from .run_view import RunPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .run_state import RunState


class StopStep(Enum):
    """Reactions to a signal that ends the run."""

    STOP = "stop"
    KILL = "kill"
    LEAVE = "leave at once"


class StopRequests:
    """Counts interrupts: the first stops with grace, the second kills, the third exits at once."""

    def __init__(self) -> None:
        self._interrupts = 0
        self._told: set[int] = set()

    def are_told(self, number: int) -> bool:
        """Return whether to print that this signal stops the run: only the first time."""
        new = number not in self._told
        self._told.add(number)
        return new

    def next(self, number: int) -> StopStep:
        """Return the reaction to this signal, given the earlier ones."""
        self._interrupts += number == signal.SIGINT
        if self._interrupts > 2:
            return StopStep.LEAVE
        return StopStep.KILL if self._interrupts == 2 else StopStep.STOP


def on_end_signal(run: RunState, number: int, why: str = "") -> None:
    """Handle a signal that ends the run; `why` is printed in its place if nobody sent it."""
    if run.phase is RunPhase.OVER:
        run.record.stopped_late(number, why)
        return
    if run.ending:
        on_late_signal(run, number, why)
        return
    run.record.stopped_by(number, why)
    if not run.started:
        run.finish()
        return
    match run.interrupts.next(number):
        case StopStep.LEAVE:
            left = ", ".join(node.name for node in run.nodes if not node.over) or "none"
            run.log(f"exiting now; may still be running on: {left}", "error")
            run.abandon()
        case StopStep.KILL:
            run.warn("killing all ranks now")
            run.stop(number, 0.0)
        case StopStep.STOP:
            if run.interrupts.are_told(number):
                _tell(run, number, why or signal.Signals(number).name)
            run.stop(number)


def on_late_signal(run: RunState, number: int, why: str = "") -> None:
    """Handle a signal that arrives while Slurm is asked why all workers ended: a possible cause."""
    if run.record.asks_allocation and run.record.ended_well:
        run.record.stopped_by(number, why)
        run.record.asks_allocation = False
        run.finish_if_explained()


def on_allocation(run: RunState, end: str) -> None:
    """Handle Slurm's answer about the allocation, whose end means SIGTERM to the whole job."""
    run.record.asks_allocation = False
    if end and not run.record.stop_signal:
        run.warn(f"{end}, and the ranks with it")
        run.record.stopped_by(signal.SIGTERM, "")
    run.finish_if_explained()


def _tell(run: RunState, number: int, why: str) -> None:
    more = "; interrupt again to kill them now" if number == signal.SIGINT else ""
    ranks = f"{why}: stopping {run.plan.world_size} ranks"
    run.warn(f"{ranks}, grace {run.grace:g} s{more}")


def on_other_signal(run: RunState, number: int) -> None:
    """Handle a signal that does not end the run."""
    if run.ending:
        return
    if number in {signal.SIGUSR1, signal.SIGUSR2}:
        signal_ranks(run, number)
    elif number == signal.SIGTSTP:
        run.do(run.act.suspend)
    elif number == signal.SIGQUIT:
        # Print it at every --log_level, because the user asked for it.
        run.log(progress(run), "error")
        if run.workers.running:
            run.do(run.act.show_stacks, run.nodes, run.workers)


def signal_ranks(run: RunState, number: int) -> None:
    """Send a signal to every worker."""
    run.send(run.nodes, frames.pack(frames.SIGNAL, bytes([number])))


def progress(run: RunState) -> str:
    """Return a table of the running ranks, or before the start the hosts that are missing."""
    return run.workers.table() if run.started else run.startup.words


def on_broken_output(run: RunState) -> None:
    """Stop the run: nobody reads its output any longer."""
    run.record.broken_pipe = True
    if run.started and not run.ending:
        run.stop(signal.SIGTERM)
