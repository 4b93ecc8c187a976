"""`--launcher slurm` outside a Slurm job: run this command in an allocation of `salloc`."""

from __future__ import annotations

import os
import shlex
import signal
import sys

from ...backends import allocates
from ...common import executable
from ...common.errors import UsageError, reason
from ...common.shell_words import shell_words
from ...common.stderr import tell
from ...common.text import plain
from ...planning import output_files
from ...planning.environment import travel
from ...planning.hosts import by_rank, chosen_hosts, number_of_gpus
from ...planning.rendezvous import OWN
from ...planning.shape import bounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

    from ...cli.options import Options
    from ...cli.parser import Command
    from ...common.detach import Parent

OWNER = "_DSRUN_SALLOC"
"""The variable with the pid of the salloc that this process has become, for the command inside."""

SILENT = {"warning", "error", "critical"}
"""Levels of --log_level at which the line about waiting is not printed."""


def is_needed(options: Options, environ: Mapping[str, str]) -> bool:
    """Return whether Slurm is the launcher, and this process is not in a Slurm job."""
    elsewhere = options.standalone or by_rank(options) or options.rdzv_backend != OWN
    return allocates(options.launcher) and "SLURM_JOB_ID" not in environ and not elsewhere


def argv(words: Sequence[str], command: Command, environ: Mapping[str, str]) -> list[str]:
    """Return the salloc command that runs this dsrun command in an allocation.

    `--launcher_args` go to salloc: requests of a job also hold for the steps in it (srun(1)), so
    srun gets none.

    Args:
        words: the arguments of dsrun, as typed.
        command: these arguments, parsed.
        environ: this process's environment.

    Raises:
        UsageError: there is no salloc, or an argument is invalid.
    """
    options = command.options
    if not any(command.program[:1]):
        from ...cli.script_words import missing

        raise missing(command.taken, command.program)
    travel(options)  # report a file that cannot be used now, not after hours in the queue
    output_files.check(options, output_files.inputs(options, command.program[0]))
    given = shell_words("--launcher_args", options.launcher_args)
    emptied = ["--launcher_args="] if given else []
    again = [*words[: command.words], *emptied, *words[command.words :]]
    computed = [*_size(options), *_gpus(options, environ)]
    return [_tool(options.launcher_path), *computed, *given, *_own_command(len(words)), *again]


def shown(argv: Sequence[str], options: Options) -> str:
    """Return the dry run, only the command: hosts and ranks depend on the allocation."""
    if options.json:
        from ...planning.dry_run import allocation_json

        return f"{allocation_json(options.launcher.lower(), argv, os.uname().nodename)}\n"
    return f"hosts  of an allocation that this command requests:\n\n  {shlex.join(argv)}\n"


def run(argv: list[str], options: Options, parent: Parent | None = None) -> NoReturn:
    """Replace this process by salloc, which exits with the code of the command inside.

    Args:
        argv: the command.
        options: the options of this command.
        parent: the parent of a detached job, which the command inside releases.

    Raises:
        UsageError: salloc cannot be started.
    """
    _check_slurm(argv[0])
    if not options.quiet and options.log_level not in SILENT:
        request = shlex.join(["salloc", *argv[1 : argv.index(sys.executable)]])
        tell(f"waiting for an allocation: {request}")
    sys.stdout.flush()
    sys.stderr.flush()
    if parent is not None:
        parent.hand_over()
    os.environ[OWNER] = str(os.getpid())
    try:
        os.execv(argv[0], argv)
    except OSError as error:
        raise UsageError(f"{argv[0]}: {reason(error)}") from None


def inside(options: Options, program: Callable[[], int]) -> int:
    """Run a program in a Slurm job; return its exit code.

    If the salloc that requested the job is killed, the program gets SIGTERM, and then the
    allocation is released: nobody else would do so.

    Raises:
        DsrunError: the error of the program.
    """
    owner = os.environ.pop(OWNER, "")
    if not owner:
        return program()
    from ...node.machine.processes import die_with_parent

    # Until the program handles SIGTERM, this exits here, which ends the allocation.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    die_with_parent(signal.SIGTERM)
    try:
        if os.getppid() != int(owner):
            sys.exit(128 + signal.SIGTERM)
        return program()
    finally:
        if os.getppid() != int(owner):
            _give_back(options.launcher_path, os.environ["SLURM_JOB_ID"])


def _give_back(path: str, job: str) -> None:
    tell(f"salloc was killed: giving back the allocation of Slurm job {job}")
    if scancel := _find("scancel", path):
        from ...common.program_output import output_of

        if refused := output_of([scancel, job]).strip():
            tell(f"scancel {job}: {plain(refused)}")


def _check_slurm(salloc: str) -> None:
    """Ask Slurm whether it runs: salloc's own message gives no advice.

    Raises:
        UsageError: Slurm does not run.
    """
    scontrol = executable.find("scontrol", [os.path.dirname(salloc)])
    if not scontrol:
        return
    import subprocess

    try:
        pinged = subprocess.run(
            [scontrol, "ping"], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError:
        return
    text = f"{pinged.stdout}\n{pinged.stderr}"
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    said = plain(lines[-1]) if lines else "no reason"
    # Old versions exit with 0, too.
    if pinged.returncode or ("DOWN" in text and "UP" not in text):
        raise UsageError(
            f"--launcher slurm: Slurm does not answer, so there is no allocation now: {said};"
            " see `scontrol ping`, or name hosts with --hostfile and another --launcher"
        )


def _tool(path: str) -> str:
    """Return salloc's path: next to srun if --launcher_path names it, else on PATH."""
    tool = _find("salloc", path)
    if not tool:
        raise UsageError(
            "--launcher slurm: this is not a Slurm job (no SLURM_JOB_ID), and there is no salloc in"
            f" {_folder(path) or 'PATH'} to request one; start dsrun from an sbatch script"
        )
    return tool


def _find(name: str, path: str) -> str:
    """Return the path of a program of Slurm, or ""."""
    folder = _folder(path)
    whole = os.path.abspath(folder)
    folders = [os.path.join(whole, "bin"), whole] if folder else executable.own_folders()
    return executable.find(name, folders)


def _folder(path: str) -> str:
    return path if os.path.isdir(path) else os.path.dirname(path)


def _own_command(words: int) -> list[str]:
    """Return the command line of this process without its last `words` arguments."""
    return [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - words]]


def _size(options: Options) -> list[str]:
    """Return salloc's options for the number of nodes, and their names if the user gives them."""
    if options.host is not None or options.hostfile is not None:
        names = [host.name for host in chosen_hosts(options)]
        return [f"--nodes={len(names)}", f"--nodelist={','.join(names)}"]
    if options.nnodes is not None:
        least, most = bounds(options.nnodes)
        return [f"--nodes={least}-{most}" if least < most else f"--nodes={least}"]
    return [] if options.num_nodes is None else [f"--nodes={options.num_nodes}"]


def _gpus(options: Options, environ: Mapping[str, str]) -> list[str]:
    count = number_of_gpus(options)
    named = options.accelerator or environ.get("DS_ACCELERATOR")
    return [] if count is None or named == "cpu" else [f"--gpus-per-node={count}"]
