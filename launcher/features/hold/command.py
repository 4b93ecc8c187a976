"""dsrun-hold: keep nodes connected, so that `dsrun --on NAME` starts on them at once."""

from __future__ import annotations

import errno
import os
from functools import partial

from ...cli.parser import Command
from ...cli.tool_parser import configured, is_answered
from ...common import entry
from ...common.errors import UsageError, reason
from ...control import local
from ...specs.program import CHECK
from .plan import check, plan_hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Sequence

    from ...cli.tool_parser import ToolCommand
    from ...common.detach import Parent


ENDING = ("release", "stop", "kill", "end", "cancel", "rm", "delete")
"""Words that people write for --release."""


def run(words: list[str]) -> int:
    """Run the command with these arguments; return the exit code.

    Raises:
        DsrunError: an argument is invalid, or the nodes cannot be held.
    """
    if words[:1] in (["--list"], ["list"], ["ls"], ["status"]):
        raise UsageError(f"dsrun-hold {words[0]}: dsrun-job lists your jobs and holds")
    command = configured("dsrun-hold", words, os.environ)
    if is_answered("dsrun-hold", command):
        return 0
    if command.rest:
        first, *names = command.rest
        if first in ENDING:
            raise UsageError(
                f"dsrun-hold {first}: write dsrun-hold --release {(names or ['NAME'])[0][:60]}"
            )
        raise UsageError(
            f"dsrun-hold: takes no program, such as {command.rest[0][:60]!r}; run programs on the"
            " held nodes with dsrun --on NAME"
        )
    entry.note(command.notes)
    return _release(command.own["release"]) if command.own["release"] else _hold(command, words)


def start() -> None:
    """Run the command `dsrun-hold` and exit."""
    entry.start(run)


def _hold(command: ToolCommand, words: Sequence[str]) -> int:
    from ..schedulers import command_salloc as salloc

    if salloc.is_needed(command.options, os.environ):
        return _in_allocation(command, words)
    run = partial(_run, command, lambda parent: _serve(command, parent))
    return salloc.inside(command.options, run)


def _run(command: ToolCommand, hold: Callable[[Parent | None], int], **more: bool) -> int:
    """Hold nodes here, or with --detach in the background; return the exit code."""
    if not command.own["detach"]:
        return hold(None)
    from ...common.detach import detached

    return detached(hold, **more)


def _in_allocation(command: ToolCommand, words: Sequence[str]) -> int:
    """Become salloc, which runs this command in an allocation that ends with the hold."""
    from ..schedulers import command_salloc as salloc

    options, name = command.options, command.own["name"]
    check(options, name)
    if name:
        _listener(name).close()
    whole = Command(options, (CHECK,), frozenset(), words=len(words))
    argv = salloc.argv(words, whole, os.environ)
    return _run(command, lambda parent: salloc.run(argv, options, parent), hands_over=True)


def _serve(command: ToolCommand, parent: Parent | None) -> int:
    from .runner_serve import serve

    own = command.own
    spec = plan_hold(command.options, own["name"], own["idle_timeout"])
    return serve(spec, _listener(spec.name), parent)


def _listener(name: str) -> socket:
    """Return the socket of a hold.

    Raises:
        UsageError: another hold has this name.
    """
    try:
        return local.listener(local.HOLD, name)
    except OSError as error:
        why = "another hold on this machine has this name"
        if error.errno != errno.EADDRINUSE:
            why = reason(error)
        free = f"dsrun-hold --release {name} releases it, if it is yours"
        raise UsageError(f"--name {name}: {why}; {free}") from None


def _release(name: str) -> int:
    """Make a hold release its nodes, and wait until that is done.

    Raises:
        UsageError: there is no such hold of this user.
    """
    from .plan_held import ask, find

    with find(name, "--release") as client:
        ask(client, {"do": "release"})
        for _ in client.frames():
            pass
    return 0
