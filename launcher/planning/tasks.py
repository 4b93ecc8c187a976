"""What the nodes are sent: the variables that travel, and the task of each."""

from __future__ import annotations

import os

from .. import __version__
from ..backends import ENGINES
from ..common import files
from ..common.errors import UsageError
from ..control.messages import Task
from ..specs import environment
from ..specs.binding_policy import core_lists, manner
from .elastic import has_own_logs, has_private_logs, is_elastic, notice, warm_modules
from .folders import from_here, workdir
from .rendezvous import UNNAMED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..cli.options import Options
    from ..specs.environment import Travel
    from ..specs.plan import Node, Plan
    from ..specs.program import Program

ENV_FILES = (".deepspeed_env", ".dsrun_env")
"""Read from the home folder, then from the current one, when they are there."""

SETTLE = 0.15
"""Seconds within which Slurm's signal for a job reaches all of its nodes, and this process."""


def travelling(options: Options) -> Travel:
    """Return the variables that go to the nodes.

    Raises:
        UsageError: an environment file, an --export or the --accelerator is not usable.
    """
    from ...accelerator import detect

    named: dict[str, str] = {}
    for path, place in _env_files(options):
        named |= _env_file(path, place)
    named |= environment.exports(options.export, os.environ)
    try:
        named |= detect.named(options.accelerator, "--accelerator")
    except ValueError as error:
        raise UsageError(str(error)) from None
    return environment.travel(os.environ, named, detect.prefixes())


def _env_files(options: Options) -> list[tuple[str, str]]:
    """Return (path, what names it) of every environment file, later ones winning.

    Nothing names those that are read where they are there.
    """
    folders = (os.path.expanduser("~"), ".")
    usual = [os.path.join(folder, name) for folder in folders for name in ENV_FILES]
    own = os.environ.get("DS_ENV_FILE", "")
    if own:
        known = [os.path.join(folder, own) for folder in folders]
        usual = [os.path.expanduser(own)] if os.sep in own else [*filter(os.path.exists, known)]
        usual = usual or known[1:]
    place = "DS_ENV_FILE " if own else ""
    return [
        *((path, place) for path in usual),
        *((path, "--env_file ") for path in options.env_file),
    ]


def _env_file(path: str, place: str) -> dict[str, str]:
    def check(status: os.stat_result) -> None:
        if status.st_uid not in {0, os.getuid()} or status.st_mode & 0o002:
            raise UsageError(f"{shown}: belongs to another user or is writable by all; not read")

    shown = f"{place}{path}"
    try:
        text = files.read(path, check=check).decode("utf-8-sig", "surrogateescape")
    except FileNotFoundError:
        if place:
            raise UsageError(f"{shown}: no such file") from None
        return {}
    except OSError as error:
        raise UsageError(f"{shown}: {(error.strerror or str(error)).lower()}") from None
    return environment.parse_env_file(text, shown)


def _logs_specs(options: Options) -> tuple[str, ...]:
    """Return what the LogsSpecs of --logs_specs is made with, () where the names are our own."""
    if has_own_logs(options):
        return ()
    from ..resources.ranges import parse_ranks

    ranks = ",".join(map(str, parse_ranks("--local_ranks_filter", options.local_ranks_filter)))
    wire = environment.to_wire
    return options.logs_specs, wire(options.log_dir), options.redirects, options.tee, ranks


def tasks(job_id: str, plan: Plan, options: Options, travel: Travel) -> Callable[[Node], Task]:
    """Return what makes each node's Task; all that is the same for all is made once."""
    how, common = manner(options), _common(job_id, plan, options, travel)
    lists = core_lists(options.bind_core_list, [node.host.name for node in plan.nodes])

    def told(node: Node) -> Task:
        first = node.rank == 0 and plan.rendezvous is None
        port = (plan.master_port or 0) if first else None
        name = node.host.name
        bound = how._replace(core_list=lists(name))
        return common._replace(host=name, slots=node.host.slots, port=port, manner=bound)

    return told


def _common(job_id: str, plan: Plan, options: Options, travel: Travel) -> Task:
    """Return the Task of no node: what is the same for all."""
    wire = environment.to_wire
    rounds = is_elastic(options) and plan.rendezvous is None
    sent = {"TORCHELASTIC_SIGNALS_TO_HANDLE": options.signals_to_handle, **travel.values}
    return Task(
        dsrun=__version__,
        job_id=job_id,
        host="",
        program=_wired(plan.program),
        workdir=wire(workdir(options)),
        env={wire(name): wire(value) for name, value in sent.items()},
        slots=None,
        port=None,
        venv_script=wire(from_here(options.venv_script)) if options.venv_script else "",
        log_dir=wire(options.log_dir) if has_own_logs(options) else "",
        log_private=has_private_logs(options),
        log_layout=options.log_layout or "dsrun",
        # A cable may be out for half of the timeout: TCP is as slow again to notice it is back.
        # What is left must do for the workers of a node that is cut off (`Task.last_grace`).
        lease=options.heartbeat_timeout * (15 / 16 if rounds else 1.0),
        grace=options.grace,
        last_grace=min(options.grace, options.heartbeat_timeout / 16) if rounds else options.grace,
        elastic=rounds or plan.rendezvous is not None,
        notice=wire(notice(options)),
        rendezvous=plan.rendezvous,
        logs_specs=_logs_specs(options),
        run_id="" if options.rdzv_id == UNNAMED else wire(options.rdzv_id),
        shard_queue=options.shard_queue,
        warm=warm_modules(options),
        one_device=options.virtual_local_rank,
        allow_background=options.allow_background,
        keep_stdin=options.stdin == "rank0",
        role=options.role,
        by_engine=plan.launcher in ENGINES,
        settle=SETTLE if "SLURM_JOB_ID" in os.environ else 0.0,
    )


def _wired(program: Program) -> Program:
    """Return the program in texts that survive the line."""
    wire = environment.to_wire
    return program._replace(
        script=wire(program.script),
        args=tuple(wire(arg) for arg in program.args),
        python=wire(program.python) if program.python else None,
    )
