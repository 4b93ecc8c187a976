"""One job on its own fleet: the loop, signals, and the nodes from their start to END."""

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
from .job import RunnerJob
from .one_program import OneProgram

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ...backends.base import DialBack, Part
    from ...specs.job import JobSpec
    from ...specs.plan import Node
    from ..output.screen import Screen
    from .control import JobControl, MakePrograms
    from .start import PreparedStart

OTHER_SIGNALS = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP, signal.SIGQUIT}
"""Signals that dsrun handles besides those that stop the job."""


def run(
    spec: JobSpec,
    start: PreparedStart,
    backend_for: Callable[[Node], Part],
    programs: MakePrograms = OneProgram,
) -> int:
    """Run a job in a terminal; return the exit code.

    Raises:
        DsrunError: the job cannot be started; nothing is left running.
    """
    loop = Loop()
    shown = spec.output
    console = Console(loop, colour=shown.color, level=shown.level, fold=shown.fold)
    ending = launch(spec, start, backend_for, loop, console, programs=programs)
    if ending.error is not None:
        raise ending.error
    return ending.code


def launch(
    spec: JobSpec,
    start: PreparedStart,
    backend_for: Callable[[Node], Part],
    loop: Loop,
    console: Screen,
    on_job: Callable[[JobControl], None] = lambda _: None,
    programs: MakePrograms = OneProgram,
) -> Ending:
    """Run a job, print its output and report, and return its ending.

    Args:
        spec: the job.
        start: the plan and the prepared backends.
        backend_for: returns the backend for a node that joins later.
        loop: run until the job has ended.
        console: closed at the end.
        on_job: called with the job before it starts.
        programs: prepares the programs on a fleet.
    """
    ended: list[Ending] = []

    def finish(ending: Ending) -> None:
        ended.append(ending)
        loop.stop()

    job = RunnerJob(spec, console, loop, finish)
    try:
        job.finish(_conduct(job, start, backend_for, on_job, programs))
        while not ended:
            loop.run()
    except Exception as error:
        job.report_crash(error)
        raise
    return ended[0]


def _conduct(
    job: RunnerJob,
    start: PreparedStart,
    backend_for: Callable[[Node], Part],
    on_job: Callable[[JobControl], None],
    programs: MakePrograms,
) -> Ending:
    """Run a job until its nodes have ended, with nothing left running.

    The arguments are as for `launch`.
    """
    spec, loop, console = job.spec, job.loop, job.console
    lease = spec.supervision.heartbeat_timeout
    try:
        job.open()
        nodes = nodes_of(start)
        fleet = NodeFleet(nodes, loop, console.log, lease, backend_for, shares=spec.held)
        made = programs(spec, fleet, console)
        job.attach(made)
        on_job(made)
        handle_signals(loop, spec, made)
        with listening(made, fleet, start.parts, spec, console) as dial:
            return serve(job, fleet, start.parts, dial)
    except DsrunError as error:
        return Ending(spec.job_id, error)


def serve(
    job: RunnerJob, fleet: NodeFleet, parts: Sequence[Part], dial: DialBack | None = None
) -> Ending:
    """Connect the fleet of a job, wait until its programs have ended, then close the fleet.

    Args:
        job: the job, which has programs and has not started.
        fleet: the fleet of the job's nodes.
        parts: each backend with the nodes it starts.
        dial: the listener for node launchers, for backends that need one.

    Raises:
        DsrunError: a node cannot take part; nothing is left running.
    """
    programs = job.programs
    assert programs is not None
    try:
        job.start()
        fleet.connect(parts, dial)
        programs.wait()
        if not programs.abandoned:
            fleet.close(_session_end(job.spec, programs.make_ending()))
    finally:
        fleet.close_at_once()
        job.close()
    job.loop.catch_up()  # a signal that has come by now may be why the workers have ended
    if (error := programs.refusal) is not None:
        raise error
    return programs.make_ending()


def _session_end(spec: JobSpec, ending: Ending) -> messages.SessionEnd:
    """Return END: the exit code, and the report for node launchers started with --no_ssh."""
    text = ending.text if BACKENDS[spec.plan.launcher].joins else ""
    return messages.SessionEnd(ending.code, f"{text}\n" if text else "")


def nodes_of(start: PreparedStart) -> list[Node]:
    """Return the nodes to start, in the order of their ranks."""
    return sorted((node for part in start.parts for node in part.nodes), key=lambda one: one.rank)


def listening(
    job: JobControl, fleet: NodeFleet, parts: Sequence[Part], spec: JobSpec, console: Screen
) -> AbstractContextManager[DialBack | None]:
    """Return a context with a listener if node launchers dial in, else an empty one."""
    if not any(part.backend.transport == "dial" for part in parts):
        return nullcontext()
    from ...features.join import runner as dial_in

    if BACKENDS[spec.plan.launcher].joins:
        return dial_in.shared(fleet, spec, console, job)
    return dial_in.announced(fleet, parts, spec, console)


def handle_signals(loop: Loop, spec: JobSpec, job: JobControl) -> None:
    """Install the signal handlers; a SIGHUP that was ignored at the start stays ignored (nohup).

    Args:
        loop: receives the signals.
        spec: names the signals that stop the job.
        job: gets each signal that stops it, and each of `OTHER_SIGNALS`.
    """
    names = spec.supervision.end_signals
    ends = {signals.parse("--signals_to_handle", name) for name in names}
    if system.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        ends.discard(signal.SIGHUP)

    def act(number: int) -> None:
        if number in ends:
            job.on_end_signal(number)
        else:
            job.pass_on(number)

    loop.on_signals({*ends, *OTHER_SIGNALS}, act)
