"""The end of the Slurm job whose nodes a run or a hold uses, which only Slurm knows.

Slurm's signal reaches the processes of a job one after another, and may reach none of dsrun's.
"""

from __future__ import annotations

import re
import signal
from functools import partial

from ...backends.child import Child, StartedChild, execute, with_pipes
from ...common import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...common.loop import Loop

LIVES = {"RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT"}
"""States of a job whose processes may run (JOB STATE CODES of squeue(1))."""

PATIENCE = 4.0
"""Seconds for Slurm to answer; it tries for longer if its controller is down."""

UNKNOWN = "Invalid job id specified"
"""scontrol's answer about a job that ended some minutes ago (MinJobAge of slurm.conf(5))."""


def ask(
    loop: Loop, environ: Mapping[str, str], then: Callable[[str], None]
) -> Callable[[], object]:
    """Ask how the Slurm job of this environment has ended, without waiting.

    Return a function that stops asking.

    Args:
        loop: calls `then`.
        environ: the environment of this process.
        then: called once with a description of the job's end, "" if the job goes on or its state is
            unknown.
    """
    job = environ.get("SLURM_JOB_ID", "")
    argv = ["scontrol", "--oneliner", "show", "job", job]
    started = _started(argv, environ) if job else None
    if started is None:
        return loop.call_later(0.0, lambda: then("")).cancel
    for fd in (started.stdin, started.stdout):
        system.close(fd)

    def answered(_code: int, text: str) -> None:
        late.cancel()
        then(words(job, text))

    child = Child(started, loop, answered)
    give_up = partial(child.send_signal, signal.SIGKILL)
    late = loop.call_later(PATIENCE, give_up)
    return give_up


def _started(argv: Sequence[str], environ: Mapping[str, str]) -> StartedChild | None:
    """Start a program that prints on one pipe; None if it cannot be started."""
    try:
        return with_pipes(lambda fds: execute(argv, environ, (fds[0], fds[2], fds[2])))
    except OSError:
        return None


def words(job: str, text: str) -> str:
    """Return a description of a job's end, given scontrol's output; "" if the job continues."""
    found = dict(re.findall(r"(?m)(?:^| )(JobState|PreemptTime)=(\S*)", text))
    state, preempted = found.get("JobState", ""), found.get("PreemptTime", "None")
    if UNKNOWN in text or (state and state not in LIVES):
        return f"Slurm job {job} has ended ({state or 'Slurm no longer has it'})"
    return "" if preempted in {"None", "Unknown"} else f"Slurm job {job} is being preempted"
