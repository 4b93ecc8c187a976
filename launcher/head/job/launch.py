"""One job on a fleet of its own: the loop, signals, the nodes from their start to END."""

from __future__ import annotations

import signal
from contextlib import nullcontext

from ...backends import BACKENDS
from ...common import signals, system
from ...common.errors import DsrunError
from ...common.loop import Loop
from ...control import messages
from ..fleet.fleet import NodeFleet
from ..output.console import Console
from ..report.ending import Ending
from .control import control_of
from .job import RunnerJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ...backends.base import DialBack, Part
    from ...specs.job import JobSpec
    from ...specs.plan import Node
    from .control import JobControl
    from .start import PreparedStart

OTHER_SIGNALS = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP, signal.SIGQUIT}
"""Signals that dsrun handles besides those that end the job."""


def run(spec: JobSpec, start: PreparedStart, backend_for: Callable[[Node], Part]) -> int:
    """Run a job in a terminal; return the exit code.

    Args:
        spec: the job.
        start: its plan and its prepared backends.
        backend_for: returns the backend for a node that joins later.

    Raises:
        DsrunError: the job cannot be started; nothing is left running.
    """
    loop = Loop()
    shown = spec.output
    console = Console(loop, colour=shown.color, level=shown.level, fold=shown.fold)
    ending = launch(spec, start, backend_for, loop, console)
    if ending.error is not None:
        raise ending.error
    return ending.code


def launch(
    spec: JobSpec,
    start: PreparedStart,
    backend_for: Callable[[Node], Part],
    loop: Loop,
    console: Console,
    on_job: Callable[[JobControl], None] = lambda _: None,
) -> Ending:
    """Run a job, and print its output and its report; return how it has ended.

    Args:
        spec: the job.
        start: its plan and its prepared backends.
        backend_for: returns the backend for a node that joins later.
        loop: is run until the job has ended.
        console: is closed at the end.
        on_job: called with the job before it begins.
    """
    return conclude(spec, loop, console, lambda job: conduct(job, start, backend_for, on_job))


def conclude(
    spec: JobSpec, loop: Loop, console: Console, conduct: Callable[[RunnerJob], Ending]
) -> Ending:
    """Run a job with `conduct`, and tell everybody how it has ended; return that."""
    ended: list[Ending] = []

    def leave(ending: Ending) -> None:
        ended.append(ending)
        loop.stop()

    job = RunnerJob(spec, console, loop, leave)
    try:
        job.end(conduct(job))
        while not ended:
            loop.run()
    except Exception as error:
        job.crash(error)
        raise
    return ended[0]


def conduct(
    job: RunnerJob,
    start: PreparedStart,
    backend_for: Callable[[Node], Part],
    on_job: Callable[[JobControl], None],
) -> Ending:
    """Run a job until its nodes have ended; nothing is left running then.

    The arguments are as in `launch`.
    """
    spec, loop, log = job.spec, job.loop, job.console.log
    try:
        job.open()
        fleet = NodeFleet(
            nodes_of(start), loop, log, spec.supervision.heartbeat_timeout, backend_for
        )
        job.assemble(fleet)
        control = control_of(job)
        on_job(control)
        handle_signals(loop, spec, control)
        with listening(control, fleet, start.parts, spec, job.console) as dial:
            return serve(job, fleet, start.parts, dial)
    except DsrunError as error:
        return Ending(spec.job_id, error)


def serve(
    job: RunnerJob, fleet: NodeFleet, parts: Sequence[Part], dial: DialBack | None = None
) -> Ending:
    """Connect the fleet of a job, wait until its run is over, then close the fleet.

    Args:
        job: not begun yet.
        fleet: has its nodes.
        parts: each backend with the nodes it starts.
        dial: where node launchers dial, for the backends that need it.

    Raises:
        DsrunError: some node cannot take part; nothing is left running.
    """
    try:
        job.begin()
        fleet.connect(parts, dial)
        job.wait()
        if not job.view().abandoned:
            fleet.close(_end_message(job))
    finally:
        fleet.disconnect()
        job.close()
    job.loop.catch_up()  # a signal that has come by now may be why the workers have ended
    if (error := job.view().error) is not None:
        raise error
    return job.conclude()


def _end_message(job: RunnerJob) -> messages.SessionEnd:
    """Return END: the exit code, and the report for node launchers started with --no_ssh."""
    ending = job.conclude()
    text = ending.text if BACKENDS[job.spec.plan.launcher].joins else ""
    return messages.SessionEnd(ending.code, f"{text}\n" if text else "")


def nodes_of(start: PreparedStart) -> list[Node]:
    """Return the nodes that are started, by their ranks."""
    return sorted((node for part in start.parts for node in part.nodes), key=lambda one: one.rank)


def listening(
    job: JobControl, fleet: NodeFleet, parts: Sequence[Part], spec: JobSpec, console: Console
) -> AbstractContextManager[DialBack | None]:
    """Return a context in which a listener takes node launchers that dial in, if there are any."""
    if not any(part.backend.transport == "dial" for part in parts):
        return nullcontext()
    from . import dial_in

    if BACKENDS[spec.plan.launcher].joins:
        return dial_in.shared(fleet, spec, console, job)
    return dial_in.announced(fleet, parts, spec, console)


def handle_signals(loop: Loop, spec: JobSpec, job: JobControl) -> None:
    """Install the signal handlers; a SIGHUP that was ignored at the start stays so (nohup).

    Args:
        loop: calls the job with each signal that ends it, and with each of `OTHER_SIGNALS`.
        spec: names those that end it.
        job: is told of them.
    """
    names = spec.supervision.end_signals
    ends = {signals.parse("--signals_to_handle", name) for name in names}
    if system.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        ends.discard(signal.SIGHUP)

    def act(number: int) -> None:
        if number in ends:
            job.end(number, "")
        else:
            job.pass_on(number)

    loop.on_signals({*ends, *OTHER_SIGNALS}, act)
