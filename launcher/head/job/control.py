"""A job as those see it who may end it, or have it observed: one program, or several roles."""

from __future__ import annotations

import signal
from functools import partial

from ...common.errors import UsageError
from ...common.values import NamedTuple
from ..run import run_signals, run_start
from ..run.run_state import RunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.errors import DsrunError
    from ..run.run import Handle
    from ..run.run_view import ObservedRun, RunView
    from .job import RunnerJob


class JobControl(NamedTuple):
    """A job that is about to begin.

    Attributes:
        roles: the names of its roles; "" is that of one program.
        started: returns whether workers run, or have run.
        ending: returns whether it ends.
        end: ends it: by the number of a signal, and why if nobody has sent that.
        pass_on: handles a signal that does not end it.
        send: acts on the number of a signal, as a program asks for it.
        stop: stops it, given seconds of grace or None.
        refuse: ends it with an error; if workers of roles run already, only logs that.
        call_off: gives up the start for a reason; if workers run already, only warns.
        observe_runs: has a function called with each of its runs before that begins.
    """

    roles: tuple[str, ...]
    started: Callable[[], bool]
    ending: Callable[[], bool]
    end: Callable[[int, str], None]
    pass_on: Callable[[int], object]
    send: Callable[[object], None]
    stop: Callable[[object], None]
    refuse: Callable[[DsrunError], None]
    call_off: Callable[[str], None]
    observe_runs: Callable[[Callable[[ObservedRun], None]], None]


def control_of(job: RunnerJob) -> JobControl:
    """Return the control of a job of one program, whose run is put together."""
    return JobControl(
        roles=("",),
        started=lambda: job.view().started,
        ending=lambda: job.view().ending,
        end=lambda number, why: job.handle(run_signals.on_end_signal, number, why),
        pass_on=lambda number: job.handle(run_signals.on_other_signal, number),
        send=partial(send, job.view, job.handle),
        stop=partial(stop, job.view, job.handle),
        refuse=lambda error: job.handle(RunState.refuse, error),
        call_off=lambda reason: job.handle(run_start.call_off, reason),
        observe_runs=lambda observe: observe(job.observed),
    )


def send(view: Callable[[], RunView], handle: Handle, number: object) -> None:
    """Act on a signal for a run: it ends the run, or is passed on to every rank.

    Raises:
        UsageError: there is no such signal.
    """
    if type(number) is not int or number not in set(signal.Signals):
        raise UsageError(f"signal {number!r}: no such signal")
    if number == signal.SIGKILL:
        stop(view, handle, 0.0, number)
    elif signal.Signals(number).name in view().spec.supervision.end_signals:
        handle(run_signals.on_end_signal, number)
    elif view().started:
        handle(run_signals.signal_ranks, number)


def stop(
    view: Callable[[], RunView],
    handle: Handle,
    grace: object,
    number: int = signal.SIGTERM,
) -> None:
    """Stop a run, with another grace than its own if that is a number of seconds.

    Raises:
        UsageError: the grace is not a number of seconds.
    """
    run = view()
    if grace is None or not run.started:
        handle(run_signals.on_end_signal, number)
        return
    if type(grace) not in {int, float} or not 0 <= grace < 1e9:  # type: ignore[operator]
        raise UsageError(f"grace: expected seconds, not {grace!r}")
    if not run.ending:
        run.record.stop_signal = run.record.stop_signal or number
        handle(RunState.stop, number, float(grace))  # type: ignore[arg-type]
