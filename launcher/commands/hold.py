"""dsrun-hold: keep nodes connected, so that `dsrun --on NAME` starts on them at once."""

from __future__ import annotations

import errno
import os

from ..backends import allocates
from ..cli.tool_parser import configured
from ..common import entry
from ..common.errors import UsageError, reason
from ..control import local
from ..planning.hold import plan_hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options
    from ..cli.tool_parser import ToolCommand


def run(words: list[str]) -> int:
    """Run the command with these arguments; return the exit code.

    Raises:
        DsrunError: an argument is not valid, or the nodes cannot be held.
    """
    if words[:1] in (["--list"], ["list"], ["ls"], ["status"]):
        raise UsageError(f"dsrun-hold {words[0]}: dsrun-job lists your jobs and holds")
    command = configured("dsrun-hold", words, os.environ)
    if command.help:
        from ..cli.help.pages import of_tool

        entry.write(of_tool("dsrun-hold"))
        return 0
    if command.config:
        entry.write(command.config)
        return 0
    if command.rest:
        raise UsageError(
            f"dsrun-hold: takes no program, as {command.rest[0][:60]!r}; run programs on the held"
            " nodes with dsrun --on NAME"
        )
    entry.note(command.notes)
    return _release(command.own["release"]) if command.own["release"] else _hold(command)


def start() -> None:
    """Run the command `dsrun-hold` and exit."""
    entry.start(run)


def _hold(command: ToolCommand) -> int:
    from ..head.hold.serve import serve

    _check_allocation(command.options)
    own = command.own
    spec = plan_hold(command.options, own["name"], own["idle_timeout"])
    try:
        line = local.listener(local.HOLD, spec.name)
    except OSError as error:
        why = "another hold on this machine has this name"
        if error.errno != errno.EADDRINUSE:
            why = reason(error)
        free = f"dsrun-hold --release {spec.name} releases it, if it is yours"
        raise UsageError(f"--name {spec.name}: {why}; {free}") from None
    if not own["detach"]:
        return serve(spec, line)
    from ..common.detach import detached

    return detached(lambda parent: serve(spec, local.take_over(line), parent))


def _check_allocation(options: Options) -> None:
    if allocates(options.launcher) and "SLURM_JOB_ID" not in os.environ:
        name = options.launcher.lower()
        raise UsageError(
            f"--launcher {name}: this is not a Slurm job; run `salloc dsrun-hold ...`, or start"
            " dsrun-hold in an sbatch script"
        )


def _release(name: str) -> int:
    """Have a hold release its nodes, and wait until it has done so.

    Raises:
        UsageError: there is no such hold of this user.
    """
    from ..control import holds

    with holds.find(name, "--release") as client:
        holds.ask(client, {"do": "release"})
        for _ in client.frames():
            pass
    return 0
