"""Signals for a run, and its stop, as a program asks for them."""

from __future__ import annotations

import signal

from ...common.errors import UsageError
from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..run.run import Run


def send(run: Run, number: object) -> None:
    """Act on a signal for a run: it ends the run, or is passed on to every rank.

    Raises:
        UsageError: there is no such signal.
    """
    if type(number) is not int or number not in set(signal.Signals):
        raise UsageError(f"signal {number!r}: no such signal")
    if number == signal.SIGKILL:
        stop(run, 0.0, number)
    elif signal.Signals(number).name in run.spec.supervision.end_signals:
        run.end_by(number)
    elif run.started:
        run.send(run.nodes, frames.pack(frames.SIGNAL, bytes([number])))


def stop(run: Run, grace: object, number: int = signal.SIGTERM) -> None:
    """Stop a run, with another grace than its own if that is a number of seconds.

    Raises:
        UsageError: the grace is not a number of seconds.
    """
    if grace is None or not run.started:
        run.end_by(number)
        return
    if type(grace) not in {int, float} or not 0 <= grace < 1e9:  # type: ignore[operator]
        raise UsageError(f"grace: expected seconds, not {grace!r}")
    if not run.ending:
        run.record.stop_signal = run.record.stop_signal or number
        run.stop(number, float(grace))  # type: ignore[arg-type]
