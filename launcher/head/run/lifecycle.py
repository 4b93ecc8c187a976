"""One job in the runner: console, signals, the run itself, report and exit code."""

from __future__ import annotations

import signal

from ...backends import BACKENDS
from ...common import signals, system
from ...common.errors import DsrunError, refusal_json
from ...common.loop import Loop
from ..fleet.fleet import Fleet
from ..output.console import Console
from ..report import file
from ..report.document import as_json, crash_json
from ..report.words import words
from ..watch.attach import attach
from .launch import launch
from .opening import opening
from .run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...backends.base import Part
    from ...specs.job import JobSpec
    from ...specs.plan import Node
    from ..report.report import Report
    from .job_socket import JobSocket
    from .start import Start

OTHER_SIGNALS = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP, signal.SIGQUIT}
"""Signals that dsrun handles besides those that end the job."""


def run(spec: JobSpec, start: Start, backend_for: Callable[[Node], Part]) -> int:
    """Run a job and report on it; return the exit code.

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
    return conduct(spec, start, backend_for, loop, console).exit_code


def conduct(
    spec: JobSpec,
    start: Start,
    backend_for: Callable[[Node], Part],
    loop: Loop,
    console: Console,
    on_run: Callable[[Run], None] = lambda _: None,
) -> Report:
    """Run a job and print its output and its report; return the report.

    Args:
        spec: the job.
        start: its plan and its prepared backends.
        backend_for: returns the backend for a node that joins later.
        loop: is run until the job has ended.
        console: is closed at the end.
        on_run: called with the run before it begins.

    Raises:
        DsrunError: the job cannot be started; nothing is left running.
    """
    try:
        open_console(spec, console)
        lease = spec.supervision.heartbeat_timeout
        fleet = Fleet(_nodes(start), loop, console.log, lease, backend_for)
        program = program_of(spec, fleet, console)
        on_run(program)
        report = _run(program, start, console)
    except DsrunError as error:
        _write_report(spec, refusal_json(spec.job_id, error))
        raise
    except Exception as error:
        _write_report(spec, crash_json(spec.job_id, error))
        raise
    finally:
        console.close()
    report = report._replace(unwritten=console.has_lost_output)
    written = _write_report(spec, as_json(report))
    return report if written else report._replace(unwritten=True)


def _run(program: Run, start: Start, console: Console) -> Report:
    """Run a program to its end, and print the report."""
    console.on_broken_pipe = program.signals.on_broken_output
    _handle_signals(program)
    close = _listen(program)
    try:
        report = _wait(program, start, console)
        text = words(report, console.still_shows)
        if text:
            console.print_report(text)
    finally:
        close()
        for last in program.before_exit:
            last()
    return report


def _listen(run: Run) -> Callable[[], None]:
    """Take requests of dsrun-job from when node launchers start; return what ends that."""
    opened: list[JobSocket] = []

    def listen() -> None:
        from .job_socket import JobSocket

        opened.append(JobSocket(run))

    timer = run.loop.call_later(0.0, listen)

    def close() -> None:
        timer.cancel()
        for one in opened:
            one.close()

    return close


def _nodes(start: Start) -> list[Node]:
    return sorted((node for part in start.parts for node in part.nodes), key=lambda one: one.rank)


def open_console(spec: JobSpec, console: Console) -> None:
    """Log the opening line, and notes for the user."""
    plan, origin = spec.plan, spec.origin
    console.log(origin.words, "debug")
    console.log(opening(plan, origin.source, spec.job_id), "debug" if origin.quiet else "info")
    for note in origin.notes:
        console.log(note)
    if spec.travel.withheld and not BACKENDS[plan.launcher].runs_here:
        names = ", ".join(spec.travel.withheld)
        console.log(
            f"not sent to the nodes because they look like secrets: {names}"
            " (send one with --export NAME)"
        )


def program_of(spec: JobSpec, fleet: Fleet, console: Console) -> Run:
    """Return the run with its restart policy, and what it does before a node gets its JOB.

    Raises:
        UsageError: the folder of --sync cannot be read, or is too large.
    """
    run = _with_policy(spec, fleet, console)
    if spec.sync is not None:
        from .synced_start import SyncedStart

        SyncedStart(run, spec.sync)
    attach(run, console)
    return run


def _with_policy(spec: JobSpec, fleet: Fleet, console: Console) -> Run:
    rendezvous, limits = spec.plan.rendezvous, spec.elastic
    if rendezvous is not None:
        from ..elastic.torch_rendezvous import TorchRendezvous

        return Run(spec, fleet, console, lambda run: TorchRendezvous(run, rendezvous))
    if limits is not None:
        from ..elastic.setup import runner_rounds

        return Run(spec, fleet, console, lambda run: runner_rounds(run, limits))
    return Run(spec, fleet, console)


def _wait(run: Run, start: Start, console: Console) -> Report:
    """Launch the run, with a listener if its backend needs one; return the report."""
    if not any(part.backend.transport == "dial" for part in start.parts):
        return launch(run, start.parts)
    from . import dial_in

    if BACKENDS[run.plan.launcher].joins:
        return dial_in.launch_shared(run, start.parts, console)
    return dial_in.launch_announced(run, start.parts, console)


def _handle_signals(run: Run) -> None:
    """Install the signal handlers; a SIGHUP that was ignored at the start stays so (nohup)."""
    names = run.spec.supervision.end_signals
    ends = {signals.parse("--signals_to_handle", name) for name in names}
    if system.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        ends.discard(signal.SIGHUP)

    def act(number: int) -> None:
        (run.signals.end if number in ends else run.signals.pass_on)(number)

    run.loop.on_signals({*ends, *OTHER_SIGNALS}, act)


def _write_report(spec: JobSpec, report: dict[str, object]) -> bool:
    """Write --report_file if there is one; return whether that was possible."""
    return spec.output.report_file is None or file.write(spec.output.report_file, report)
