"""Make the plan of a command line: hosts, slots, backend and program."""

from __future__ import annotations

import os
import sys

from ..backends import BACKENDS
from ..cli.options import of_roles
from ..common.errors import UsageError, conflict
from ..common.records import NamedTuple
from ..resources import source
from ..specs.backend import BackendSettings
from ..specs.plan import OWN_PYTHON, Origin, Plan, by_task, lay_out
from ..specs.program import CHECK, DEEPSPEEDS_RANK_OPTION, NOTHING, TORCHS_RANK_OPTION, Program
from . import doors, host_lists, launcher, master
from .folders import from_here, interpreter, is_same, own_fits, workdir
from .hosts import nodes_by_rank, select
from .inventory import find_hosts
from .shape import grows, is_elastic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..cli.options import Options
    from ..cli.parser import Command
    from ..specs.batch_plan import BatchPlan
    from ..specs.host import Host
    from .project_python import ProjectPython

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of dsrun's own programs."""


LOUD = ("debug", "info", "warning")
"""Values of --log_level that print more than --quiet allows."""

NOTED = frozenset(
    {
        *(
            "health_timeout",
            "change_delay",
            "sync_limit",
            "setup_if",
            "warm_modules",
            "on_hang",
            "no_ssh",
        ),
        "export",
        *("cool_down", "gain_delay", "logs_specs", "min_elastic_nodes", "max_elastic_nodes"),
    }
)
"""Options for which `idle` may have notes."""


class PlannedJob(NamedTuple):
    """A plan without its policies: enough to start node launchers.

    Attributes:
        plan: nodes in rank order, and the program.
        origin: the origin of the plan, as text for the user.
        backend: the settings for starting node launchers.
        batches: the elastic batch plan that the number of workers must fit, or None.
    """

    plan: Plan
    origin: Origin
    backend: BackendSettings
    batches: BatchPlan | None = None


def make_plan(command: Command) -> PlannedJob:
    """Return the plan of a command line.

    Raises:
        UsageError: options conflict, or name something that does not exist.
    """
    options = command.options
    check_program(command)
    inventory = find_hosts(options) if command.rendezvous is None else source.this_machine()
    hosts, alone = nodes_by_rank(command, select(options, inventory))
    choice = launcher.choose(options, hosts, alone=alone)
    hosts = launcher.as_it_calls_them(choice, hosts)
    planned = plan_on(command, inventory, hosts, choice, alone=alone)
    check_rank_per_task(planned.plan, options)
    return planned


def check_program(command: Command) -> None:
    """Check that there is a script, not part of a split list of hosts, and that options fit it.

    Raises:
        UsageError: there is no script, or an option cannot be used here.
    """
    for name in sorted(command.given & of_roles()):
        raise UsageError(f"--{name}: only for a job of several roles: dsrun --roles FILE")
    if not any(command.program[:1]):
        from ..cli.script_words import missing

        raise missing(command.taken, command.program)
    host_lists.check(command, workdir(command.options))
    level = command.options.log_level
    if command.options.quiet and "log_level" in command.given and level in LOUD:
        raise conflict("--quiet", f"--log_level {level}")
    if command.options.json and not command.options.dry_run:
        raise UsageError(
            "--json: only with --dry_run; --report_file FILE writes a job's result as JSON"
        )


def plan_on(
    command: Command,
    inventory: source.HostSource,
    hosts: Sequence[Host],
    choice: launcher.BackendChoice,
    *,
    alone: bool,
) -> PlannedJob:
    """Return the plan of a command line for these hosts of an inventory.

    Raises:
        UsageError: options conflict, or name something that does not exist.
    """
    options, found = command.options, None if choice.names_python else project_python(command)
    program = _program(command, several=_starts_several(command, hosts, alone=alone))
    plan = Plan(
        nodes=lay_out(hosts),
        program=program._replace(project_python=found.path) if found else program,
        launcher=choice.name,
        master_addr=master.address(options, hosts, alone=alone),
        master_port=options.master_port or None,  # 0: any free port
        rendezvous=command.rendezvous,
    )
    launcher_note = [f"launcher: {choice.words}"] if choice.noted else []
    notes = (*command.notes, *launcher_note, *_notes(inventory, plan.program, command))
    origin = Origin(
        command.joined or inventory.words,
        choice.words,
        (*notes, *_of_python(found, options)),
        BACKENDS[plan.launcher].this_machine and launcher.is_auto(options),
        _python_origin(options, found, named=choice.names_python),
    )
    batches = elastic_plan(options, plan.world_size)
    return PlannedJob(plan, origin, backend_settings(plan.program, options), batches)


def elastic_plan(options: Options, size: int | None) -> BatchPlan | None:
    """Return the elastic batch plan of --elastic_config; None without that option.

    Raises:
        UsageError: the file cannot be used, or `size` workers (if known) do not fit the plan.
    """
    if options.elastic_config is None:
        return None
    from ..features.elastic.plan_batch import fitting

    return fitting(options.elastic_config, size)


def check_rank_per_task(plan: Plan, options: Options) -> None:
    """With --rank_per_task, check that the backend can start one task per rank.

    Raises:
        UsageError: the backend cannot, or the number of ranks is unknown.
    """
    if not options.rank_per_task:
        return
    if not BACKENDS[plan.launcher].by_engine:
        able = ", ".join(name for name, spec in BACKENDS.items() if spec.by_engine)
        raise UsageError(
            f"--rank_per_task: --launcher {plan.launcher} cannot start ranks; use one of: {able}"
        )
    by_task(plan)


def backend_settings(program: Program, options: Options) -> BackendSettings:
    """Return the settings for starting node launchers.

    Raises:
        UsageError: --launcher_args or an option about binding is invalid.
    """
    return BackendSettings(
        python=program.python or sys.executable,
        args=_words(options.launcher_args),
        **options.policy("backend"),
        connect_timeout=options.connect_timeout,
        keepalive=options.heartbeat_timeout / 3,
        bind=_binds(options),
        elastic=is_elastic(options),
    )


def _binds(options: Options) -> bool:
    if "binding" not in doors.asked(options):
        return False
    from ..features.binding.plan import binds

    return binds(options)


def _words(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    from ..common.shell_words import shell_words

    return shell_words("--launcher_args", text)


def _notes(inventory: source.HostSource, program: Program, command: Command) -> list[str]:
    from ..cli import common_mistakes
    from ..specs.host import repeats

    here = all(map(source.is_here, inventory.hosts))
    common_mistakes.check(program, workdir(command.options), here=here)
    return [
        *inventory.notes,
        *repeats(inventory.hosts, inventory.words),
        *common_mistakes.notes(program, command.given),
        *_hidden(program, command.options),
        *_unused_port(command),
        *_unused_variable(command),
        *_idle(command),
    ]


def _idle(command: Command) -> list[str]:
    """Return a note on each option without effect, and on one that makes the job elastic."""
    empty = any(getattr(command.options, name) == "" for name in command.given)
    if command.given.isdisjoint(NOTED) and not empty:
        return []
    from ..features.detached.plan_idle import notes

    return [*notes(command)]


def _unused_port(command: Command) -> list[str]:
    """Return a note on a port that the rounds of an elastic job do not use."""
    port = command.options.master_port
    if not (port and is_elastic(command.options)) or command.rendezvous is not None:
        return []
    return [
        f"--master_port {port} has no effect on workers of an elastic job: each round uses a"
        " free port"
    ]


def _unused_variable(command: Command) -> list[str]:
    """Return a note on a MASTER_PORT in the environment that does not belong to this job."""
    options, port = command.options, os.environ.get("MASTER_PORT")
    # In a worker of a job, the variables belong to that job.
    if not port or options.master_port is not None or "DSRUN_JOB_ID" in os.environ:
        return []
    from ..cli.option import PORTS
    from ..resources.ranges import is_count

    usable = is_count(port) and 0 < int(port) <= PORTS
    why = f"to use it, give --master_port {port}" if usable else "it is not a port number"
    if command.rendezvous is not None:
        why = "torch's rendezvous chooses the port"
    elif is_elastic(options):
        why = "each round of an elastic job uses a free port"
    return [f"MASTER_PORT={port} in the environment is not used; {why}"]


def _hidden(program: Program, options: Options) -> list[str]:
    """Return a note on installed modules that the workers' folder hides through PYTHONPATH.

    A script in that folder, or `python -m`, finds the folder's modules first in any case.
    """
    folder = workdir(options)
    own = os.path.normpath(os.path.dirname(os.path.join(folder, program.script)))
    always_first = program.module or program.no_python or own == os.path.normpath(folder)
    if always_first or not program.folder_first:
        return []
    from .modules import warning

    script = from_here(options.venv_script) if options.venv_script else ""
    return warning(folder, program.python or script or program.project_python)


def project_python(command: Command) -> ProjectPython | None:
    """Return the workers' Python if no option names one; None for dsrun's own Python.

    Functions sent by a Python program run on that program's Python, so nothing is looked up. Nor is
    it for programs that do not run on Python.
    """
    options, script = command.options, command.program[0]
    settled = options.python or options.container not in {"", "none"} or script == NOTHING
    if settled or (options.no_python and command.rendezvous is None):
        return None
    path = os.path.join(workdir(options), script)
    if path.startswith(f"{PACKAGE}/") or own_fits(os.environ):
        return None
    from .project_python import find

    # A module is found in the workers' folder, unless it is installed.
    folder = workdir(options) if options.module else os.path.dirname(path)
    return find(os.environ, None if script == CHECK else folder)


def _of_python(found: ProjectPython | None, options: Options) -> list[str]:
    """Return the notes on the workers' Python; none if --venv_script chooses that Python anyway."""
    script = from_here(options.venv_script) if options.venv_script else ""
    if not found or (script and is_same(os.path.dirname(script), os.path.dirname(found.path))):
        return []
    unless = "; --venv_script may put another one first on PATH" if script else ""
    return [f"{note}{unless}" for note in found.notes]


def _python_origin(options: Options, found: ProjectPython | None, *, named: bool) -> str:
    """Return the option or place that determines the workers' Python, for `Origin`.

    `named` says whether the node launchers run on a named Python.
    """
    if options.python or (named and not options.venv_script):
        return "--python"
    if options.venv_script:
        return "--venv_script"
    return found.origin if found else OWN_PYTHON


def _starts_several(command: Command, hosts: Sequence[Host], *, alone: bool) -> bool:
    """Return whether this process starts several nodes, or treats one node as several."""
    options = command.options
    only_this = alone or command.rendezvous is not None
    return not only_this and (len(hosts) > 1 or options.force_multi or grows(options))


def _program(command: Command, *, several: bool) -> Program:
    options = command.options
    script, *args = command.program
    if options.module and options.no_python:
        raise conflict("--module", "--no_python")
    torchs = options.local_rank and command.like_torchrun
    return Program(
        script=script,
        args=tuple(args),
        module=options.module,
        no_python=options.no_python,
        python=interpreter(options),
        local_rank=passes_local_rank(options, default=not command.like_torchrun),
        # DeepSpeed 0.19 (runner.py) puts the folder first for several nodes, torchrun never.
        folder_first=several and not command.like_torchrun,
        rank_option=TORCHS_RANK_OPTION if torchs else DEEPSPEEDS_RANK_OPTION,
    )


def passes_local_rank(options: Options, *, default: bool) -> bool:
    """Return whether the script gets its local rank as an option; `default` if no option decides.

    Raises:
        UsageError: two options contradict each other.
    """
    if options.local_rank and options.no_local_rank:
        raise conflict("--local_rank", "--no_local_rank")
    return options.local_rank or (default and not options.no_local_rank)
