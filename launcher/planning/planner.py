"""From options to a plan: which hosts, which slots, which backend, which program."""

from __future__ import annotations

import os

from ..backends import BACKENDS
from ..common.errors import UsageError, conflict
from ..common.values import NamedTuple
from ..resources import source, stray
from ..resources.counts import is_count
from ..resources.membership import WORDS_FOR_ALL
from ..specs.host import MAX_SLOTS
from ..specs.plan import Plan, lay_out
from ..specs.program import Program
from . import master
from .elastic import bounds, grows
from .folders import from_here, interpreter, workdir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..cli.options import Options
    from ..cli.parser import Command
    from ..specs.host import Host
    from .batch_plan import BatchPlan


class Arrangement(NamedTuple):
    """A plan and where it came from.

    Attributes:
        source: where the hosts came from, in words.
        choice: which launcher was picked, and why.
        batches: the elastic plan that the number of workers has to fit, if there is one.
        notes: lines that the user is to see, at the start as well as in a dry run.
    """

    plan: Plan
    source: str
    choice: str
    batches: BatchPlan | None = None
    notes: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """Both in one line."""
        return f"hosts: {self.source}; launcher: {self.choice}"


def arrange(command: Command) -> Arrangement:
    """Return the plan that a command line asks for.

    Raises:
        UsageError: it asks for what is not there, or for two things at once.
    """
    options = command.options
    if not any(command.program[:1]):
        empty = " (its word is empty: a variable that is not set?)" if command.program else ""
        raise UsageError(f"no script{empty}: dsrun [options] SCRIPT [ARGS...]; see dsrun --help")
    stray.check(command, workdir(options))
    found = source.find(options) if command.rendezvous is None else source.this_machine()
    hosts = _select(options, found)
    hosts, alone = _bare_nodes(options, hosts, command)
    launcher, why = _launcher(options, hosts, alone=alone)
    plan = Plan(
        nodes=lay_out(hosts),
        program=_program(command, several=_starts_several(command, hosts, alone=alone)),
        launcher=launcher,
        master_addr=master.address(options, hosts, alone=alone),
        master_port=options.master_port or None,  # 0: a free one, which nobody has to know before
        rendezvous=command.rendezvous,
    )
    # Only a reason of the user's own setup has paramiko left aside.
    aside = [f"launcher: {why}"] if launcher == "openssh" != options.launcher.lower() else []
    notes = (*command.notes, *aside, *_notes(found, plan.program, command))
    batches = elastic_plan(options, plan.world_size)
    return Arrangement(plan, command.joined or found.words, why, batches, notes)


def _notes(found: source.Source, program: Program, command: Command) -> list[str]:
    from ..cli import slips
    from ..specs.host import repeats

    slips.check(program, workdir(command.options))
    return [
        *repeats(found.hosts, found.words),
        *slips.notes(program, command.given),
        *_hidden(program, command.options),
    ]


def _hidden(program: Program, options: Options) -> list[str]:
    """What to tell of installed modules that the workers' folder hides, where that is new to them.

    A script of that folder, and `python -m`, would find its modules first anyway.
    """
    folder = workdir(options)
    own = os.path.normpath(os.path.dirname(os.path.join(folder, program.script)))
    as_ever = program.module or program.no_python or own == os.path.normpath(folder)
    if as_ever or not program.folder_first:
        return []
    from .modules import warning

    return warning(folder, program.python or from_here(options.venv_script))


def _check_named(options: Options, found: source.Source) -> None:
    """See that there are hosts where several nodes are asked for.

    Raises:
        UsageError: nothing names them.
    """
    asked = bounds(options.nnodes)[0] if options.nnodes else options.num_nodes or 1
    alone = [host.name for host in found.hosts] == [source.THIS_MACHINE] and not options.host
    if asked == 1 or not alone or options.hostfile or by_rank(options):
        return
    flag = "--nnodes" if options.nnodes else "--num_nodes"
    raise UsageError(
        f"{flag} {options.nnodes or asked}: nothing names the hosts: --hostfile FILE, --host h1,h2"
        " or an allocation; or run this on every node, with --node_rank N --master_addr HOST or"
        " --rdzv_backend c10d --rdzv_endpoint HOST:PORT"
    )


def _select(options: Options, found: source.Source) -> list[Host]:
    from ..resources.select import select

    hosts = found.hosts
    if options.exclude and _is_bare(found):
        hosts = [_counted(hosts[0], options)]
    wanted = _num_nodes(options, len(found.hosts))
    _check_named(options, found)
    return select(
        hosts,
        include=options.include,
        exclude=options.exclude,
        num_nodes=wanted,
        num_gpus=number_of_gpus(options),
        source=found.words,
        # The lines of DeepSpeed's users have `localhost` wherever there is one machine.
        aliases=source.names_here() if _is_alone(hosts) else (),
    )


def selected(options: Options) -> list[Host]:
    """Return the hosts that the options name and choose.

    Raises:
        UsageError: they name none, or choose what is not there.
    """
    return _select(options, source.find(options))


def relisted(options: Options, data: bytes) -> list[Host]:
    """Return the hosts that a new text of their source names, as far as they may take part.

    Raises:
        UsageError: it cannot be understood.
    """
    from ..resources.hostfile import parse_hostfile

    name = options.host_discovery_script or source.watched(options)
    return _select(options, source.Source(parse_hostfile(data, name), name))


def _is_bare(found: source.Source) -> bool:
    """Tell whether the only host is this machine, with nothing said of its slots."""
    return _is_alone(found.hosts) and found.hosts[0].slots is None


def _is_alone(hosts: Sequence[Host]) -> bool:
    return len(hosts) == 1 and source.is_here(hosts[0])


def _counted(host: Host, options: Options) -> Host:
    """Return this machine with its devices counted, so that some can be taken away."""
    from ...accelerator import detect

    try:
        environ = {**os.environ, **detect.named(options.accelerator, "--accelerator")}
        devices = detect.visible(detect.detect(environ), environ)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return host._replace(slots=tuple(range(len(devices)))) if devices else host


def _num_nodes(options: Options, known: int) -> int | None:
    """Return --num_nodes or torchrun's --nnodes, also written N:N."""
    # Where the command runs on every node, hosts need no names, only a number.
    bare = by_rank(options) and known == 1
    if options.nnodes is None:
        return None if bare else options.num_nodes
    least, most = bounds(options.nnodes)
    if least < most:
        return options.num_nodes  # an elastic job takes all hosts; those beyond MAX are spares
    if options.num_nodes not in {None, least}:
        raise conflict(f"--nnodes {least}", f"--num_nodes {options.num_nodes}")
    return None if bare else least


def by_rank(options: Options) -> bool:
    """Tell whether the same command runs on every node: --no_ssh, or torchrun's static form."""
    return options.no_ssh or (
        options.nnodes is not None and options.node_rank is not None and not options.host
    )


def number_of_gpus(options: Options) -> int | None:
    """Return --num_gpus or torchrun's --nproc_per_node, None for all.

    Raises:
        UsageError: the two differ, or that is no number of workers.
    """
    if options.nproc_per_node is None or options.nproc_per_node in WORDS_FOR_ALL:
        return options.num_gpus
    if not (is_count(options.nproc_per_node) and 1 <= int(options.nproc_per_node) <= MAX_SLOTS):
        valid = f"1 to {MAX_SLOTS}, or {', '.join(sorted(WORDS_FOR_ALL))}"
        raise UsageError(f"--nproc_per_node {options.nproc_per_node}: expected {valid}")
    count = int(options.nproc_per_node)
    if options.num_gpus not in {None, count}:
        raise conflict(f"--nproc_per_node {count}", f"--num_gpus {options.num_gpus}")
    return count


def _bare_nodes(options: Options, hosts: list[Host], command: Command) -> tuple[list[Host], bool]:
    """Return the nodes of --no_ssh, which need no names: node-0, node-1, ... of --nnodes.

    The second value tells whether the same command runs on every node.

    Raises:
        UsageError: it is not known how many nodes there are, which this one is, or where node 0 is.
    """
    if not by_rank(options):
        if options.node_rank is not None and "node_rank" in command.given:
            raise UsageError(
                "--node_rank: only with --no_ssh, which runs the command on every node"
            )
        return hosts, False
    count = bounds(options.nnodes)[0] if options.nnodes else options.num_nodes or len(hosts)
    named = len(hosts) > 1 or hosts[0].name != source.THIS_MACHINE
    if not named:
        slots = hosts[0].slots
        hosts = [hosts[0]._replace(name=f"node-{rank}", slots=slots) for rank in range(count)]
    if options.node_rank is None:
        raise UsageError("--no_ssh: say which node this is: --node_rank 0 to N-1")
    if options.node_rank >= len(hosts):
        raise UsageError(
            f"--node_rank {options.node_rank}: there are {len(hosts)} nodes, 0 to {len(hosts) - 1}"
        )
    if len(hosts) > 1 and options.master_addr is None and not named:
        raise UsageError("--no_ssh: say where node 0 is: --master_addr HOST")
    return hosts, True


def _launcher(options: Options, hosts: Sequence[Host], *, alone: bool) -> tuple[str, str]:
    """Return the backend's name, and the words that say why it."""
    name = options.launcher.lower()
    if name != "auto" and name not in BACKENDS:
        known = ", ".join(["auto", *BACKENDS])
        raise UsageError(f"--launcher {options.launcher}: expected one of {known}")
    if alone:
        return "none", "none (--no_ssh)"
    remote = [h for h in hosts if options.force_multi or not source.is_here(h)]
    if name == "local" and remote:
        raise UsageError(f"--launcher local: {remote[0].name} is not this machine")
    if grows(options) and name not in {"auto", "ssh", "openssh"}:
        raise UsageError(
            f"--launcher {name}: cannot reach hosts that come later; ssh or openssh can"
        )
    if name != "auto":
        return name, name
    if _in_slurm_job(hosts) and not grows(options):
        return "slurm", "slurm (srun, as this is inside the job)"
    if not remote and not grows(options):
        return "local", "local (only this machine)"
    return _pick(remote, options)


def _in_slurm_job(hosts: Sequence[Host]) -> bool:
    """Tell whether all hosts are nodes of the Slurm job that this runs in."""
    if "SLURM_JOB_ID" not in os.environ:
        return False
    import shutil

    from ..resources import allocation

    held = allocation.find(os.environ)
    names = {host.name for host in held.hosts} if held and held.scheduler == "slurm" else set()
    return names.issuperset(host.name for host in hosts) and shutil.which("srun") is not None


def _pick(hosts: Sequence[Host], options: Options) -> tuple[str, str]:
    """Return the first remote backend that is installed here, and able to reach these hosts.

    Raises:
        UsageError: there is none, or the user's ssh configuration cannot be read.
    """
    import shutil

    why_not = _against_paramiko(hosts, options)
    if not why_not:
        return "ssh", "ssh (paramiko is installed; --launcher openssh uses the ssh program)"
    if shutil.which("ssh"):
        return "openssh", f"openssh (the ssh program; {why_not})"
    if shutil.which("pdsh"):
        return "pdsh", "pdsh (neither paramiko nor ssh is installed)"
    raise UsageError("no way to reach other hosts: install OpenSSH's client, paramiko or pdsh")


def _against_paramiko(hosts: Sequence[Host], options: Options) -> str:
    """Return why it is not for paramiko to reach these hosts, "" if it is."""
    from importlib.util import find_spec

    if options.launcher_args:
        return "--launcher_args are for a program"
    if find_spec("paramiko") is None:
        return "paramiko is not installed"
    from ..backends.ssh.unsupported import better_by_openssh

    return better_by_openssh(hosts, options.ssh_port)


def _starts_several(command: Command, hosts: Sequence[Host], *, alone: bool) -> bool:
    """Tell whether this starts several nodes, or as if they were several."""
    options = command.options
    here = alone or command.rendezvous is not None
    return not here and (len(hosts) > 1 or options.force_multi or grows(options))


def _program(command: Command, *, several: bool) -> Program:
    options = command.options
    script, *args = command.program
    if options.module and options.no_python:
        raise conflict("--module", "--no_python")
    return Program(
        script=script,
        args=tuple(args),
        module=options.module,
        no_python=options.no_python,
        python=interpreter(options),
        local_rank=not (options.no_local_rank or command.like_torchrun),
        # As each peer has it: DeepSpeed 0.19's runner.py for several nodes, torchrun never.
        folder_first=several and not command.like_torchrun,
    )


def elastic_plan(options: Options, size: int | None) -> BatchPlan | None:
    """Return the elastic plan of --elastic_config, which holds this many workers if it is known.

    Raises:
        UsageError: the file cannot be used, or the plan does not hold them.
    """
    path = options.elastic_config
    if path is None:
        return None
    from .batch_config import read

    batches = read(path, "--elastic_config")
    try:
        if size is not None:
            batches.for_world(size)
    except ValueError as error:
        raise UsageError(f"--elastic_config {path}: {error}") from None
    return batches
