"""dsrun-exec: run a command on all hosts, or copy files to or from them."""

from __future__ import annotations

import os

from ...cli.tool_parser import configured, is_answered
from ...common import entry
from ...common.errors import UsageError, conflict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.tool_parser import ToolCommand


MIXING = ("copy", "fetch")
"""Options after which words and options may come in any order."""

BUILTIN = ("cd", "source", ".", "export", "unset", "alias", "eval", "pushd", "set")
"""Commands that only change the shell that runs them."""


def run(words: list[str]) -> int:
    """Run the command with these arguments; return the exit code.

    Raises:
        UsageError: an option is unknown or has a bad value, or there is nothing to run.
        NodeError: no host can be used.
    """
    command = configured("dsrun-exec", words, os.environ, mixing=MIXING)
    if is_answered("dsrun-exec", command):
        return 0
    _check(command)
    entry.note(command.notes)
    from .command_run import execute

    return execute(command)


def start() -> None:
    """Run the command `dsrun-exec` and exit."""
    entry.start(run)


def _check(command: ToolCommand) -> None:
    """Check that the command line requests exactly one task.

    Raises:
        UsageError: there is no task, or options contradict each other.
    """
    own, rest = command.own, command.rest
    modes = [f"--{name}" for name in ("shell", "copy", "fetch") if own[name] not in {None, False}]
    if len(modes) > 1:
        raise conflict(*modes)
    if own["shell"] is not None and rest:
        raise UsageError(
            f"--shell takes the whole line as one argument; unexpected argument {rest[0]!r}"
        )
    if rest[:1] and rest[0] in BUILTIN and not modes:
        import shlex

        line = shlex.join(rest)
        also = "--workdir DIR sets where a command runs, or use " if rest[0] == "cd" else ""
        raise UsageError(
            f"{rest[0]}: a command built into the shell; {also}--shell"
            f" {shlex.quote(f'{line}; ...')}"
        )
    if rest[:1] and " " in rest[0].strip() and not modes and "/" not in rest[0].split(" ")[0]:
        import shlex

        also = "" if len(rest) > 1 else f"; write {rest[0]}, or --shell {shlex.quote(rest[0])}"
        raise UsageError(f"{rest[0]!r}: a single word, and no program has that name{also}")
    if not any(rest[:1]) and not own["shell"]:
        files = modes in (["--copy"], ["--fetch"])
        what = f"{modes[0]} FILE..." if files else "COMMAND [ARGS...]"
        raise UsageError(f"nothing to do: dsrun-exec [options] {what}; see dsrun-exec -h")
    _check_use(command, modes)


def _check_use(command: ToolCommand, modes: list[str]) -> None:
    own = command.own
    files = modes in (["--copy"], ["--fetch"])
    if own["to"] and not files:
        raise UsageError("--to: only with --copy or --fetch")
    unusable = [name for name in ("stdin", "json", "no_fold", "workdir") if name in command.given]
    if files and unusable:
        raise conflict(modes[0], f"--{unusable[0]}")
    if own["json"] and own["no_fold"]:
        raise conflict("--json", "--no_fold")


if __name__ == "__main__":
    start()
