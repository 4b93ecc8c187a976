"""The requests of local control to a hold.

`VERBS` lists them. To add one, write a function of a hold, a caller, the request and its
descriptors, and add a row.
"""

from __future__ import annotations

from functools import partial

from ...common.errors import DsrunError, UsageError
from ...common.text import one_line
from ...specs import codec
from ...specs.job import JobSpec
from ...specs.plan import OWN_PYTHON
from ...specs.program import NOTHING
from .runner import HoldPhase, places
from .runner_held_run import HeldRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from ...specs.roles import RolesSpec
    from ..jobs.runner_server import LocalCaller, Message, Verb
    from . import runner_json_types as json_types
    from .runner import Hold

    HoldVerb: TypeAlias = Callable[[Hold, LocalCaller, Message, list[int]], Message | None]


def verbs(hold: Hold) -> dict[str, Verb]:
    """Return the verbs of a hold for its server."""
    return {name: partial(verb, hold) for name, verb in VERBS.items()}


def describe(hold: Hold, caller: LocalCaller, request: Message, _fds: list[int]) -> Message | None:
    """Answer with the held nodes, once they have been surveyed."""

    def answer() -> None:
        if hold.phase is HoldPhase.SERVING:
            caller.answer(description(hold), request)
        else:
            caller.refuse(hold.error or UsageError(f"hold {hold.spec.name} is ending"), request)

    hold.when_ready(answer)
    return None


def description(hold: Hold) -> Message:
    """Return the held nodes, for the plan of a run."""
    job = hold.spec.job
    kinds = {facts.accelerator for facts in hold.nodes.facts.values()}
    return {
        **_identity(hold),
        "launcher": job.plan.launcher,
        "hosts": _hosts(hold),
        "accelerator": min(kinds, default=""),
        "preload": list(job.workers.preload),
        "settings": codec.encode(job.backend),
    }


def _identity(hold: Hold) -> Message:
    from ... import __version__

    job = hold.spec.job.job_id
    return {"name": hold.spec.name, "version": __version__, "since": hold.since, "job": job}


def _hosts(hold: Hold) -> list[json_types.HeldHost]:
    return [_host(hold, host.name, host.slots or ()) for host in hold.nodes.hosts]


def _host(hold: Hold, name: str, slots: tuple[int | str, ...]) -> json_types.HeldHost:
    lost = hold.nodes.lost(name)
    return {
        "name": name,
        "slots": slots,
        "state": "lost" if lost else "busy" if hold.taken(name) else "free",
        "reason": lost,
    }


def status(hold: Hold, _caller: LocalCaller, _request: Message, _fds: list[int]) -> Message:
    """Return the state of a hold and its runs."""
    identity = _identity(hold)
    told: json_types.HoldJson = {
        "name": identity["name"],
        "version": identity["version"],
        "since": identity["since"],
        "state": hold.phase.value,
        "launcher": hold.spec.job.plan.launcher,
        "hosts": _hosts(hold),
        "runs": [_run(run, waits=hold.waits(run)) for run in hold.runs.values()],
        "last": hold.messages[-1] if hold.messages else "",
    }
    return {**identity, **told, "kind": "hold"}


def _run(run: HeldRun, *, waits: bool) -> json_types.HeldRunJson:
    taken = places(run.spec.plan)
    return {
        "job": run.job_id,
        "state": "waiting" if waits else "running",
        "hosts": list(taken),
        "ranks": sum(map(len, taken.values())),
        "since": run.since,
    }


def logs(hold: Hold, _caller: LocalCaller, _request: Message, _fds: list[int]) -> Message:
    """Return the last message lines of a hold."""
    return {"lines": list(hold.messages)}


def release(hold: Hold, _caller: LocalCaller, _request: Message, _fds: list[int]) -> Message:
    """Stop all runs and release the nodes; the connection is closed when that is done."""
    hold.loop.call_later(0.0, lambda: hold.stop(0))
    return {"name": hold.spec.name, "runs": len(hold.runs)}


# -- runs -----------------------------------------------------------------------------------


def run(hold: Hold, caller: LocalCaller, request: Message, fds: list[int]) -> None:
    """Run a job; answer at its end, with exit code and report.

    Raises:
        DsrunError: the request is invalid, or the job cannot run here now.
    """
    busy = request.get("busy", "wait")
    streams = {1, 3} if request.get("relay") is True else {3}
    if len(fds) not in streams or busy not in {"wait", "refuse"}:
        raise UsageError("invalid request to run a job")
    spec, roles = _asked(hold, request)
    if spec.job_id in hold.runs:
        raise UsageError(f"job {spec.job_id[:40]} already runs on hold {hold.spec.name}")
    try:
        hold.check(spec.plan, waits=busy == "wait")
    except DsrunError as error:
        if request.get("relay") is not True or spec.output.report_file is None:
            raise
        HeldRun(hold, spec, caller, request, tuple(fds), roles).fail(error)
    else:
        hold.add(HeldRun(hold, spec, caller, request, tuple(fds), roles))


def _asked(hold: Hold, request: Message) -> tuple[JobSpec, RolesSpec | None]:
    """Return the job of a request, adapted to held nodes, and its roles if any.

    Raises:
        UsageError: the request is invalid.
    """
    if request.get("roles") is not True:
        return fitted(hold, codec.decode(JobSpec, request.get("spec"))), None
    from ...specs.roles import RolesSpec

    spec = codec.decode(RolesSpec, request.get("spec"))
    roles = tuple(role._replace(job=fitted(hold, role.job)) for role in spec.roles)
    whole = RolesSpec(fitted(hold, spec.job), roles)
    _check_places(whole)
    return whole.job, whole


def _check_places(spec: RolesSpec) -> None:
    """Check that all roles of a job are on the slots that the job requests.

    Raises:
        UsageError: there are no roles, or one is elsewhere.
    """
    own = {name: {*slots} for name, slots in places(spec.job.plan).items()}
    for role in spec.roles:
        for name, slots in places(role.job.plan).items():
            if not own.get(name, set()).issuperset(slots):
                raise UsageError(f"role {role.name}: {name} has slots that the job does not have")
    if not spec.roles:
        raise UsageError("invalid request to run a job: it has no roles")


def fitted(hold: Hold, spec: JobSpec) -> JobSpec:
    """Return a job adapted to held nodes, which are reached and watched with the hold's settings.

    Raises:
        UsageError: held nodes cannot run the job.
    """
    own = hold.spec.job
    spec = _on_python(spec, own)
    plan = spec.plan
    shared = any(node.share for node in plan.nodes)
    if plan.rendezvous or spec.updates or spec.only is not None or shared or not plan.nodes:
        raise UsageError("held nodes cannot run this job: its hosts are not the hold's")
    heartbeat = own.supervision.heartbeat_timeout
    preload = () if plan.program.no_python else spec.workers.preload or own.workers.preload
    return spec._replace(
        plan=plan._replace(launcher=own.plan.launcher),
        workers=spec.workers._replace(preload=preload),
        backend=own.backend.for_run(spec.backend),
        supervision=spec.supervision._replace(heartbeat_timeout=heartbeat),
        dial_in=own.dial_in,
        held=True,
    )


def _on_python(spec: JobSpec, own: JobSpec) -> JobSpec:
    """Return a job with the hold's Python, if the job has no Python.

    A function that was sent needs its program's Python.
    """
    found, program = own.plan.program.project_python, spec.plan.program
    runs_none = program.no_python or program.script == NOTHING
    if spec.payload or runs_none or not found or spec.origin.python != OWN_PYTHON:
        return spec
    note = f"workers run on {one_line(found)}, which the hold chose ({own.origin.python})"
    notes = (*spec.origin.notes, note)
    origin = spec.origin._replace(python=own.origin.python, notes=notes)
    plan = spec.plan._replace(program=program._replace(project_python=found))
    return spec._replace(plan=plan, origin=origin)


def signal(hold: Hold, caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Pass a signal to the caller's own runs, or to the run of a given job."""
    number = request.get("number")
    if type(number) is not int or not 0 < number < 65:
        raise UsageError("invalid signal")
    for one in _named(hold, caller, request):
        one.signal(number)
    return {}


def stop(hold: Hold, caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Stop the caller's own runs, or the run of a given job."""
    for one in _named(hold, caller, request):
        one.stop(request.get("grace"))
    return {}


def _named(hold: Hold, caller: LocalCaller, request: Message) -> list[HeldRun]:
    job = request.get("job")
    if job is None:
        return [one for one in hold.runs.values() if one.caller is caller]
    if job not in hold.runs:
        running = ", ".join(hold.runs) or "none"
        raise UsageError(f"no job {str(job)[:40]} on hold {hold.spec.name}; running: {running}")
    return [hold.runs[job]]


def execute(hold: Hold, caller: LocalCaller, request: Message, fds: list[int]) -> Message:
    """Run a command on some nodes; see `runner_exec_requests`."""
    from . import runner_exec_requests as exec_requests

    return exec_requests.execute(hold, caller, request, fds)


def program(hold: Hold, caller: LocalCaller, request: Message, fds: list[int]) -> Message:
    """Start, feed or stop a program of dsrun on a node; see `runner_program_requests`."""
    from . import runner_program_requests as program_requests

    verbs = {"program": program_requests.start, "program_input": program_requests.feed}
    return verbs.get(request["do"], program_requests.stop)(hold, caller, request, fds)


def stop_commands(hold: Hold, caller: LocalCaller, _request: Message, _fds: list[int]) -> Message:
    """Stop the commands of a caller."""
    if hold.commands is not None:
        hold.commands.stop(caller)
    return {}


VERBS: Mapping[str, HoldVerb] = {
    "describe": describe,
    "run": run,
    "signal": signal,
    "stop": stop,
    "release": release,
    "exec": execute,
    "exec_stop": stop_commands,
    "program": program,
    "program_input": program,
    "program_stop": program,
    "status": status,
    "logs": logs,
}
"""All requests by the name in their field `do`."""
