"""The course of one job in the runner: console, signals, the job itself, and what is told of it."""

from __future__ import annotations

import os
import signal
import time

from ...common import executable, signals
from ...common.errors import DsrunError, UsageError
from ...common.secret import shared_secret
from ...common.values import NamedTuple
from ...planning.elastic import limits
from ...planning.folders import from_here, workdir
from ...planning.tasks import tasks, travelling
from ...resources import source
from ..output.console import Console
from ..report import file
from ..report.report import as_json, crash_json, words
from .job import Job
from .policy import opening, rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ...backends.base import Part
    from ...cli.options import Options
    from ...common.loop import Loop
    from ...control.messages import Task
    from ...planning.planner import Arrangement
    from ...specs.elastic_policy import Limits
    from ...specs.environment import Travel
    from ...specs.plan import Node, Plan
    from ...specs.program import Program
    from ...specs.rendezvous import Rendezvous
    from ..report.report import Report
    from .policy import Rules

NOT_AN_END = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP, signal.SIGQUIT}
"""Signals that dsrun acts on beside those that end the job."""


class Course(NamedTuple):
    """What is settled of a job before anything of it runs.

    Attributes:
        travel: the variables that go to the nodes.
        told: makes each node's task.
        watched: how the job is watched and shown.
        elastic: how far it may shrink and fail; None where it may not.
        ends: the signals that end it.
    """

    job_id: str
    travel: Travel
    told: Callable[[Node], Task]
    watched: Rules
    elastic: Limits | None
    ends: Sequence[int]


def settled(arrangement: Arrangement, options: Options) -> Course:
    """Return what a plan and the options make of a job: a dry run comes as far as this.

    Raises:
        UsageError: they cannot be meant.
    """
    job_id = time.strftime("%Y%m%d-%H%M%S-") + os.urandom(3).hex()
    plan, travel = arrangement.plan, travelling(options)
    if options.report_file is not None:
        file.check(options.report_file)
    if plan.launcher in {"local", "none"} or any(source.is_here(n.host) for n in plan.nodes):
        _check_script(plan, options)
        _check_log_dir(options)
    if plan.launcher == "none":
        shared_secret(options)
    watched = rules(options, job_id)._replace(
        batches=arrangement.batches,
        devices=_expects_devices(plan, options),
        folder=workdir(options),
    )
    misfit = watched.misfit(plan, False)
    if misfit:
        raise UsageError(misfit)
    return Course(
        job_id,
        travel,
        tasks(job_id, plan, options, travel),
        watched,
        limits(options, len(plan.nodes)) if plan.rendezvous is None else None,
        _signals(options),
    )


def run(
    course: Course,
    arrangement: Arrangement,
    split: Sequence[Part],
    loop: Loop,
    options: Options,
    later: Callable[[Node], Part],
) -> int:
    """Run the job of a plan and report on it; returns the exit code.

    Args:
        course: what is settled of it.
        arrangement: the plan.
        split: its backends, each with the nodes it starts.
        loop: the loop that all of it runs on.
        options: what the user asked for.
        later: makes the backend for a node that the plan does not have yet.

    Raises:
        DsrunError: it cannot be started; nothing is left running.
    """
    plan, job_id = arrangement.plan, course.job_id
    console = Console(loop, colour=options.color, level=_level(options))
    try:
        console.say(arrangement.said, "debug")
        console.say(opening(plan, arrangement.source, job_id), _loudness(plan, options))
        for note in arrangement.notes:
            console.say(note)
        _warn_of(course.travel, plan, console)
        parts = (job_id, plan, loop, console, course.watched, course.told, _nodes(split))
        job = _job(plan.rendezvous, course.elastic, later, options, *parts)
        console.on_broken_pipe = job.on_broken_output
        _heed_signals(course.ends, job, loop)
        report = _see_through(job, split, plan, loop, options, console)
        _tell(report, console)
    except DsrunError as error:
        story = {"job_id": job_id, "exit_code": error.exit_code, "error": str(error)}
        _write_report(options, story)
        raise
    except Exception as error:
        _write_report(options, crash_json(job_id, error))
        raise
    finally:
        console.close()
    _write_report(options, as_json(report))
    return report.exit_code


def _job(
    rendezvous: Rendezvous | None,
    limits: Limits | None,
    later: Callable[[Node], Part],
    options: Options,
    *parts: Any,
) -> Job:
    """Return the job, of the kind that says who decides about rounds: torch, the runner, nobody."""
    if rendezvous is not None:
        from ..elastic.torch_job import TorchJob

        return TorchJob(rendezvous, *parts)
    if limits is not None:
        from ..elastic.setup import elastic_job

        return elastic_job(limits, later, options, *parts)
    return Job(*parts)


def _nodes(split: Sequence[Part]) -> list[Node]:
    return sorted((node for part in split for node in part.nodes), key=lambda node: node.rank)


def _see_through(
    job: Job, split: Sequence[Part], plan: Plan, loop: Loop, options: Options, console: Console
) -> Report:
    """Run the job, with a door to dial in at where its backend needs one."""
    dialling = [node for part in split if part.backend.transport == "dial" for node in part.nodes]
    if not dialling:
        return job.run(split, None, lambda _node, _token: None)
    from ..fleet import accept

    if plan.launcher == "none":
        from ..fleet.first_node import look_for_another

        def opened(pin: str) -> None:
            look_for_another(job, plan, loop, options, pin)

        return accept.run_shared(job, split, plan, loop, options, console, opened)
    return accept.run_announced(job, split, dialling, loop, options, console)


def _signals(options: Options) -> list[int]:
    """Return the signals that end the job; one that was ignored when dsrun began stays so (nohup).

    Raises:
        UsageError: --signals_to_handle names none.
    """
    names = options.signals_to_handle.split(",")
    ends = [signals.named("--signals_to_handle", name) for name in names]
    hung_up = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [one for one in ends if not (one == signal.SIGHUP and hung_up)]


def _heed_signals(ends: Sequence[int], job: Job, loop: Loop) -> None:
    def heed(number: int) -> None:
        (job.end_by_signal if number in ends else job.on_signal)(number)

    loop.on_signals({*ends, *NOT_AN_END}, heed)


def _loudness(plan: Plan, options: Options) -> str:
    """Return the level of the opening line: on this machine alone there is nothing to tell."""
    return "debug" if plan.launcher == "local" and options.launcher == "auto" else "info"


def _warn_of(travel: Travel, plan: Plan, console: Console) -> None:
    if travel.withheld and plan.launcher not in {"local", "none"}:
        names = ", ".join(travel.withheld)
        console.say(
            f"not sent to the nodes, they look like secrets: {names} (--export NAME sends one)"
        )


def _level(options: Options) -> str:
    return "error" if options.quiet else options.log_level


def _check_script(plan: Plan, options: Options) -> None:
    """Look for the script, as this machine is a node; elsewhere the nodes look for it."""
    if not os.path.isdir(workdir(options)):
        raise UsageError(f"--workdir {workdir(options)}: there is no such folder")
    if options.venv_script and not os.path.exists(from_here(options.venv_script)):
        raise UsageError(f"--venv_script {from_here(options.venv_script)}: no such file")
    program = plan.program
    by_name = program.module or (program.no_python and "/" not in program.script)
    full = os.path.join(workdir(options), program.script.removeprefix("./"))
    if options.venv_script:
        return
    if by_name:
        _check_name(program, full)
        return
    if not os.path.exists(full):
        raise UsageError(f"no such script: {full}")
    why = executable.fault(full) if program.no_python else ""
    if why:
        raise UsageError(f"--no_python {full}: {why}")


def _check_name(program: Program, full: str) -> None:
    """See that a program named without a folder is not one of this folder, which PATH lacks."""
    if program.module or not os.path.isfile(full):
        return
    import shutil

    if shutil.which(program.script) is None:
        raise UsageError(
            f"--no_python {program.script}: no such program on PATH; ./{program.script} is the one"
            " in this folder"
        )


def _check_log_dir(options: Options) -> None:
    folder = os.path.join(workdir(options), options.log_dir)
    if options.log_dir and os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"--log_dir {options.log_dir}: is a file; name a folder")


def _expects_devices(plan: Plan, options: Options) -> bool:
    """Tell whether accelerators were asked for, by their number or by saying nothing."""
    counted = any(node.slots is None for node in plan.nodes) and options.nproc_per_node != "cpu"
    asked = options.num_gpus is not None or (counted and not plan.program.no_python)
    return asked and options.accelerator is None


def _tell(report: Report, console: Console) -> None:
    text = words(report)
    if text:
        console.tell(text)


def _write_report(options: Options, report: dict[str, object]) -> None:
    if options.report_file is not None:
        file.write(options.report_file, report)
