"""`--launcher slurm` outside of a job: the same command once more, in an allocation of `salloc`."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys

from ..backends import allocates
from ..common.errors import UsageError, reason
from ..planning.elastic import bounds
from ..planning.environment import travel
from ..planning.hosts import by_rank, chosen_hosts, number_of_gpus
from ..planning.rendezvous import OWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from ..cli.options import Options
    from ..cli.parser import Command

SILENT = {"warning", "error", "critical"}
"""Levels of --log_level at which nobody wants to know that dsrun waits."""


def is_needed(options: Options, environ: Mapping[str, str]) -> bool:
    """Return whether Slurm is asked for, and this is no job of it."""
    elsewhere = options.standalone or by_rank(options) or options.rdzv_backend != OWN
    return allocates(options.launcher) and "SLURM_JOB_ID" not in environ and not elsewhere


def argv(words: Sequence[str], command: Command, environ: Mapping[str, str]) -> list[str]:
    """Return salloc's command, which runs this very dsrun inside.

    `--launcher_args` are salloc's: what is asked of a job holds for the steps in it (srun(1)), so
    srun gets none of them.

    Args:
        words: dsrun's own, as they were typed.
        command: what they mean.
        environ: this process's environment.

    Raises:
        UsageError: there is no salloc, or something that can be known beforehand is wrong.
    """
    options = command.options
    if not any(command.program[:1]):
        raise UsageError("no script: dsrun [options] SCRIPT [ARGS...]; see dsrun --help")
    travel(options)  # a file that cannot be read is told now, not after hours in the queue
    try:
        theirs = shlex.split(options.launcher_args)
    except ValueError as error:
        raise UsageError(f"--launcher_args {options.launcher_args!r}: {error}") from None
    before = len(words) - len(command.program)
    before -= words[before - 1 : before] == ["--"]
    emptied = ["--launcher_args="] if theirs else []
    again = [*words[:before], *emptied, *words[before:]]
    ours = [*_size(options), *_gpus(options, environ)]
    return [_tool(options.launcher_path), *ours, *theirs, *_own_command(len(words)), *again]


def shown(argv: Sequence[str], options: Options) -> str:
    """Return what a dry run prints: hosts and ranks are known only in the allocation."""
    if options.json:
        commands = [{"host": os.uname().nodename, "argv": argv}]
        told = {"launcher": options.launcher.lower(), "nodes": None, "commands": commands}
        return f"{json.dumps(told)}\n"
    return f"hosts  of an allocation that is asked for with this command:\n\n  {shlex.join(argv)}\n"


def run(argv: list[str], options: Options) -> NoReturn:
    """Become salloc, after a line that says so; its exit code is that of the command inside.

    Raises:
        UsageError: it cannot be started.
    """
    if not options.quiet and options.log_level not in SILENT:
        asked = shlex.join(["salloc", *argv[1 : argv.index(sys.executable)]])
        sys.stderr.write(f"dsrun: waiting for an allocation: {asked}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(argv[0], argv)
    except OSError as error:
        raise UsageError(f"{argv[0]}: {reason(error)}") from None


def _tool(path: str) -> str:
    """Return salloc's path: where --launcher_path has srun, or on PATH."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    folders = [os.path.join(folder, "bin"), folder] if folder else [os.environ.get("PATH", "")]
    found = shutil.which("salloc", path=os.pathsep.join(folders))
    if found is None:
        raise UsageError(
            "--launcher slurm: this is not inside a Slurm job (no SLURM_JOB_ID), and no salloc is "
            f"in {folder or 'PATH'} to ask for one; start dsrun from a script for sbatch"
        )
    return os.path.abspath(found)


def _own_command(words: int) -> list[str]:
    """Return what has started this process, without its last `words` words."""
    return [sys.executable, *sys.orig_argv[1 : len(sys.orig_argv) - words]]


def _size(options: Options) -> list[str]:
    """Return how many nodes are asked for, and which where the user names some."""
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
