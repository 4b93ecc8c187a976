"""A job of several roles on a fleet of its own: the loop, signals, the nodes until END."""

from __future__ import annotations

from functools import partial

from ...backends import BACKENDS
from ...common.errors import DsrunError
from ...common.loop import Loop
from ...control.messages import SessionEnd
from ..fleet.fleet import NodeFleet
from ..job.launch import conclude, handle_signals, listening, nodes_of
from ..job.start import backend_for, prepare
from ..output.console import Console
from ..report.ending import Ending
from .control import control_of
from .roles_job import RolesJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...backends.base import DialBack, Part
    from ...specs.plan import Node
    from ...specs.roles import RolesSpec
    from ..job.control import JobControl
    from ..job.job import RunnerJob
    from ..job.start import PreparedStart


def launch(
    spec: RolesSpec,
    start: PreparedStart | None = None,
    run: Callable[[RolesSpec, PreparedStart], int] | None = None,
) -> int:
    """Run a job of roles and report on it; return the exit code.

    Args:
        spec: the job.
        start: the result of `prepare` for the plan of all its nodes, if that was called before.
        run: runs it, in place of a function that does so in a terminal.

    Raises:
        DsrunError: the job cannot be started; nothing is left running.
    """
    job = spec.job._replace(held=True)
    spec = spec._replace(job=job)
    start = start or prepare(job.plan, job.settings)
    conducted = partial(run or _run, spec, start)
    if not job.supervision.requeue_codes:
        return conducted()
    from ..job.requeue import requeueing

    return requeueing(job.supervision.requeue_codes, conducted)


def _run(spec: RolesSpec, start: PreparedStart) -> int:
    """Run a job of roles in a terminal; return the exit code.

    Raises:
        DsrunError: the job cannot be started; nothing is left running.
    """
    loop, shown = Loop(), spec.job.output
    console = Console(loop, colour=shown.color, level=shown.level, fold=shown.fold)
    ending = conduct(spec, start, loop, console)
    if ending.error is not None:
        raise ending.error
    return ending.code


def conduct(
    spec: RolesSpec,
    start: PreparedStart,
    loop: Loop,
    console: Console,
    on_job: Callable[[JobControl], None] = lambda _: None,
    later: Callable[[Node], Part] | None = None,
) -> Ending:
    """Run a job of roles, and print its output and its report; return how it has ended.

    Args:
        spec: the job; the nodes of `spec.job` are kept until all roles have ended.
        start: the prepared backends of all its nodes.
        loop: is run until the job has ended.
        console: is closed at the end.
        on_job: called with the job before it begins.
        later: returns the backend for a node that is reached again; None for that of the job.
    """
    later = later or backend_for(spec.job)
    return conclude(
        spec.job, loop, console, lambda whole: _conduct(whole, spec, start, on_job, later)
    )


def _conduct(
    whole: RunnerJob,
    spec: RolesSpec,
    start: PreparedStart,
    on_job: Callable[[JobControl], None],
    later: Callable[[Node], Part],
) -> Ending:
    """Run the roles until all nodes have ended; nothing is left running then."""
    loop, console, lease = whole.loop, whole.console, spec.job.supervision.heartbeat_timeout
    try:
        whole.open()
        fleet = NodeFleet(nodes_of(start), loop, console.log, lease, later, shares=True)
        job = RolesJob(spec, fleet, console, loop.stop)
        fleet.on_idle = job.effects.on_idle
        whole.draw, whole.tell = job.painter(), job.tell
        control = control_of(job)
        on_job(control)
        console.on_broken_pipe = job.on_broken_output
        handle_signals(loop, spec.job, control)
        with listening(control, fleet, start.parts, spec.job, console) as dial:
            ending = _serve(job, start, dial)
        whole.hooks = job.tell_end(ending)
        return ending
    except DsrunError as error:
        return Ending(spec.job.job_id, error)


def _serve(job: RolesJob, start: PreparedStart, dial: DialBack | None) -> Ending:
    """Connect the fleet, wait until the job is over, then close the fleet."""
    fleet, loop = job.fleet, job.loop
    try:
        job.begin()
        fleet.connect(start.parts, dial)
        loop.run()
        ending = job.conclude()
        if not job.abandoned:
            joins = BACKENDS[job.spec.job.plan.launcher].joins
            text = f"{ending.text}\n" if joins and ending.text else ""
            fleet.close(SessionEnd(ending.code, text))
        return ending
    finally:
        fleet.disconnect()
        job.close()
