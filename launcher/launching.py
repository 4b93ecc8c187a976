"""From a plan to a finished job: what the nodes are told, how they are reached, how it is shown."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time

from . import __version__, backends, environment
from .backends.base import Settings, package_root
from .backends.local import Local
from .control.messages import Task
from .errors import DsrunError, UsageError
from .loop import Loop
from .resources import source
from .values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .arrange import Arrangement
    from .backends.base import Backend
    from .environment import Travel
    from .head.console import Console
    from .head.job import Job
    from .head.report import Report
    from .options import Options
    from .plan import Node, Plan
    from .program import Program

ENV_FILES = (".deepspeed_env", ".dsrun_env")
"""Read from the home folder, then from the current one, when they are there."""

ENV_FILE_LIMIT = 16 << 20
"""Characters of an environment file: a job's environment is smaller, something else may not be."""

NOT_AN_END = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP}
"""Signals that dsrun acts on beside those that end the job."""


def show(arrangement: Arrangement, options: Options) -> str:
    """Return what --dry_run prints.

    Raises:
        UsageError: the plan cannot be carried out as it stands.
    """
    from . import arrange, dryrun

    plan = arrangement.plan
    travel = travelling(options)
    commands = [
        command
        for backend, nodes in parts(plan, options)
        for command in backend.commands(nodes, None)
    ]
    commands.sort(key=_in_order(plan))
    if options.json:
        return dryrun.as_json(plan, commands, travel)
    folder = arrange.workdir(options)
    return dryrun.as_table(plan, arrangement.said, commands, travel, folder)


def _in_order(plan: Plan) -> Callable[[tuple[str, list[str]]], int]:
    ranks = {node.host.name: node.rank for node in plan.nodes}
    return lambda command: ranks[command[0]]


def launch(arrangement: Arrangement, options: Options, only: int | None = None) -> int:
    """Run the job of a plan and report on it; returns the exit code.

    Args:
        arrangement: the plan.
        options: what the user asked for.
        only: the one node rank that this process sees to, None for all.

    Raises:
        DsrunError: it cannot be started; nothing is left running.
    """
    plan = arrangement.plan
    loop = Loop()
    split = parts(plan, options, only)
    _warm(split, loop)
    from .head.console import Console
    from .head.job import Job
    from .head.report import as_json
    from .head.view import rules

    job_id = time.strftime("%Y%m%d-%H%M%S-") + os.urandom(3).hex()
    travel = travelling(options)
    told = _tasks(job_id, plan, options, travel)
    watched = rules(options, job_id)
    _check_report_file(options)
    console = Console(loop, colour=options.color, level=_level(options))
    try:
        console.say(f"{arrangement.said}; job {job_id}", _loudness(plan, options))
        _warn_of(travel, plan, console)
        job = Job(job_id, plan, loop, console, watched, told, _nodes(split))
        console.on_broken_pipe = job.on_broken_output
        loop.on_signals(_signals(options), job.on_signal)
        report = _see_through(job, split, plan, loop, options, console)
        _tell(report, console)
    except DsrunError as error:
        _write_report(
            options, {"job_id": job_id, "exit_code": error.exit_code, "error": str(error)}
        )
        raise
    finally:
        console.close()
    _write_report(options, as_json(report))
    return report.exit_code


def _warm(split: Sequence[Part], loop: Loop) -> None:
    """Start this machine's own node launcher now: it gets ready while the rest is imported.

    Raises:
        UsageError: the interpreter cannot be started.
    """
    for part in split:
        if isinstance(part.backend, Local):
            try:
                part.backend.warm(part.nodes, loop)
            except OSError as error:
                raise UsageError(f"--python {error.filename}: {error.strerror}") from None


def _nodes(split: Sequence[Part]) -> list[Node]:
    return sorted((node for part in split for node in part.nodes), key=lambda node: node.rank)


def _see_through(
    job: Job, split: Sequence[Part], plan: Plan, loop: Loop, options: Options, console: Console
) -> Report:
    """Run the job, with a door to dial in at where its backend needs one."""
    dialling = [node for part in split if part.backend.transport == "dial" for node in part.nodes]
    if not dialling:
        return job.run(split, None, lambda _node, _token: None)
    from .head import dialled

    if plan.launcher == "none":
        return dialled.run_shared(job, split, plan, loop, options, console)
    return dialled.run_announced(job, split, dialling, loop, options)


class Part(NamedTuple):
    """A backend, and the nodes it starts."""

    backend: Backend
    nodes: Sequence[Node]


def parts(plan: Plan, options: Options, only: int | None = None) -> list[Part]:
    """Return the backends of a plan, each with its nodes: this machine's own needs no ssh.

    With `only`, that node is this machine, and the others are none of our business.

    Raises:
        UsageError: a backend's tool is not here, or it cannot start these nodes.
    """
    settings = _settings(plan.program, options)
    here, there = _split(plan, options) if only is None else ([plan.nodes[only]], [])
    found = [Part(backends.load("local", settings), here)] if here else []
    if there:
        name = plan.launcher
        found.append(Part(backends.load(name, settings), there))
    for part in found:
        problem = part.backend.problem(part.nodes)
        if problem:
            raise UsageError(problem)
    return found


def _split(plan: Plan, options: Options) -> tuple[list[Node], list[Node]]:
    if plan.launcher == "none":
        return list(plan.nodes[:1]), list(plan.nodes[1:])
    if plan.launcher == "local":
        return list(plan.nodes), []
    here = [n for n in plan.nodes if not options.force_multi and source.is_here(n.host)]
    return here, [node for node in plan.nodes if node not in here]


def _settings(program: Program, options: Options) -> Settings:
    try:
        args = tuple(shlex.split(options.launcher_args))
    except ValueError as error:
        raise UsageError(f"--launcher_args {options.launcher_args!r}: {error}") from None
    return Settings(
        python=program.python or sys.executable,
        root=package_root(),
        args=args,
        port=options.ssh_port,
        connect_timeout=options.connect_timeout,
        keepalive=options.heartbeat_timeout / 3,
        accept_new_host_keys=options.accept_new_host_keys,
    )


def travelling(options: Options) -> Travel:
    """Return the variables that go to the nodes.

    Raises:
        UsageError: an environment file or an --export is not usable.
    """
    from ..accelerator import detect

    named: dict[str, str] = {}
    for path, wanted in _env_files(options):
        named |= _env_file(path, wanted=wanted)
    named |= environment.exports(options.export, os.environ)
    return environment.travel(os.environ, named, detect.prefixes())


def _env_files(options: Options) -> list[tuple[str, bool]]:
    """Return (path, must exist) of every environment file, later ones winning."""
    named = os.environ.get("DS_ENV_FILE", "")
    own = [os.path.expanduser(named)] if os.sep in named else []
    names = ENV_FILES if not named else () if own else (named,)
    folders = (os.path.expanduser("~"), ".")
    usual = [(os.path.join(folder, name), False) for folder in folders for name in names]
    return [*usual, *((path, True) for path in (*own, *options.env_file))]


def _env_file(path: str, *, wanted: bool) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            status = os.fstat(file.fileno())
            text = file.read(ENV_FILE_LIMIT + 1)
    except FileNotFoundError:
        if wanted:
            raise UsageError(f"--env_file {path}: no such file") from None
        return {}
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    if status.st_uid not in {0, os.getuid()} or status.st_mode & 0o002:
        raise UsageError(f"{path}: belongs to another user or is writable by all; not read")
    if len(text) > ENV_FILE_LIMIT:
        raise UsageError(f"{path}: larger than {ENV_FILE_LIMIT} characters; not read")
    return environment.parse_env_file(text, path)


def _tasks(job_id: str, plan: Plan, options: Options, travel: Travel) -> Callable[[Node], Task]:
    """Return what makes each node's Task; all that is the same for all is made once."""
    from .arrange import workdir

    wire = environment.to_wire
    program = plan.program
    wired = program._replace(
        script=wire(program.script),
        args=tuple(wire(arg) for arg in program.args),
        python=wire(program.python) if program.python else None,
    )
    common = Task(
        dsrun=__version__,
        job_id=job_id,
        host="",
        program=wired,
        workdir=wire(workdir(options)),
        env={wire(name): wire(value) for name, value in travel.values.items()},
        slots=None,
        port=None,
        venv_script=wire(options.venv_script),
        bind=options.bind_cores_to_rank or bool(options.bind_core_list),
        core_list=options.bind_core_list,
        log_dir=wire(options.log_dir),
        lease=options.heartbeat_timeout,
        grace=options.grace,
        one_device=options.virtual_local_rank,
        allow_background=options.allow_background,
        keep_stdin=options.stdin == "rank0",
        role=options.role,
    )

    def told(node: Node) -> Task:
        port = (plan.master_port or 0) if node.rank == 0 else None
        return common._replace(host=node.host.name, slots=node.host.slots, port=port)

    return told


def _signals(options: Options) -> list[int]:
    """Return the signals to act on; one that was ignored when dsrun began stays so (nohup).

    Raises:
        UsageError: --signals_to_handle names none.
    """
    ends = []
    for name in options.signals_to_handle.split(","):
        number = getattr(signal, name.strip().upper(), None)
        if not isinstance(number, signal.Signals):
            raise UsageError(f"--signals_to_handle: no signal {name.strip()!r}; such as SIGTERM")
        ends.append(number)
    hung_up = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [one for one in {*ends, *NOT_AN_END} if not (one == signal.SIGHUP and hung_up)]


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


def _check_report_file(options: Options) -> None:
    if options.report_file is None:
        return
    folder = os.path.dirname(os.path.abspath(options.report_file))
    if os.path.isdir(options.report_file):
        raise UsageError(f"--report_file {options.report_file}: is a folder; name a file")
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise UsageError(f"--report_file {options.report_file}: {folder} cannot be written to")


def _tell(report: Report, console: Console) -> None:
    from .head.report import words

    text = words(report)
    if text:
        console.tell(text)


def _write_report(options: Options, report: dict[str, object]) -> None:
    if options.report_file is None:
        return
    try:
        with open(options.report_file, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
            file.write("\n")
    except OSError as error:
        # The job's own exit code counts for more than its report.
        reason = (error.strerror or str(error)).lower()
        sys.stderr.write(f"dsrun: --report_file {options.report_file}: {reason}\n")
