"""Signals for the roles of a job, and their stop, as a user or a program asks for them."""

from __future__ import annotations

import signal
from functools import partial

from ...common.errors import UsageError
from ..job.control import JobControl
from ..run.run_signals import signal_ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .roles_job import RolesJob


def control_of(job: RolesJob) -> JobControl:
    """Return the control of a job of roles."""
    return JobControl(
        roles=tuple(job.roles),
        started=lambda: job.started,
        ending=lambda: job.ending,
        end=job.end,
        pass_on=job.pass_on,
        send=partial(send, job),
        stop=partial(stop, job),
        refuse=job.refuse,
        call_off=job.call_off,
        observe_runs=job.observe_runs,
    )


def pass_on(job: RolesJob, number: int) -> int:
    """Send a signal to the ranks of all roles; return how many run."""
    ranks = 0
    for role in job.roles.values():
        if (run := role.view) is not None and run.runs:
            ranks += len(run.workers.running)
            role.handle(signal_ranks, number)
    return ranks


def send(job: RolesJob, number: object) -> None:
    """Act on a signal for a job: it ends the job, or is passed on to every rank.

    Raises:
        UsageError: there is no such signal.
    """
    if type(number) is not int or number not in set(signal.Signals):
        raise UsageError(f"signal {number!r}: no such signal")
    if number == signal.SIGKILL:
        stop(job, 0.0, number)
    elif signal.Signals(number).name in job.spec.job.supervision.end_signals:
        job.end(number)
    else:
        pass_on(job, number)


def stop(job: RolesJob, grace: object, number: int = signal.SIGTERM) -> None:
    """Stop a job in the order of its roles; what is left after the grace is killed.

    Args:
        job: the job.
        grace: seconds for all roles together; None for that of each role.
        number: the signal.

    Raises:
        UsageError: the grace is not a number of seconds.
    """
    if grace is not None and (type(grace) not in {int, float} or not 0 <= grace < 1e9):  # type: ignore[operator]
        raise UsageError(f"grace: expected seconds, not {grace!r}")
    job.end(number)

    def kill() -> None:
        job.handle(job.policy.killed, number)

    if grace == 0:
        kill()
    elif grace is not None:
        job.loop.call_later(float(grace), kill)  # type: ignore[arg-type]
