"""Check for empty values, and for values that the shell or a blank has split."""

from __future__ import annotations

import os

from ..common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..cli.parser import Command

_LISTS = ("host", "include", "exclude")
"""Options that list hosts."""


def check(command: Command, folder: str) -> None:
    """Check that no list of hosts is empty, and that the script is not a host of a split list.

    Args:
        command: the command line.
        folder: the workers' folder, where the script is looked up on this machine.

    Raises:
        UsageError: a list is empty or split; the message shows what was probably meant.
    """
    lists = [name for name in _LISTS if name in command.given]
    for name in lists:
        if not getattr(command.options, name):
            raise UsageError(f"--{name} '': names no hosts; leave it out, or list some")
    _check_empty(command)
    if command.options.module or command.options.no_python:
        return
    if not lists:
        _check_unquoted(command, folder)
        return
    hosts = _before_the_script(command.program, folder)
    if hosts:
        from ..cli.options import all_options

        name = lists[0]
        separator = all_options()[name].separator
        whole = separator.join([getattr(command.options, name).rstrip(separator), *hosts])
        raise UsageError(f"{hosts[0]}: no such script; if these are hosts, write --{name} {whole}")


def _check_empty(command: Command) -> None:
    """Check that no option is empty, as by an unset variable, unless "" is a valid value."""
    from ..cli.options import all_options

    for name in sorted(command.given):
        row = all_options()[name]
        if row.default is None and getattr(command.options, name) == "":
            raise UsageError(
                f"--{name} '': expected {row.metavar}; if there is none, leave the option out"
            )


def _check_unquoted(command: Command, folder: str) -> None:
    """Check that the script is not part of the value before it, which would need quotes."""
    option, _ = command.taken
    script, *args = command.program
    if not option or not args or os.path.exists(os.path.join(folder, script)):
        return
    from ..cli.script_words import unquoted

    if whole := unquoted(command.taken, command.program, folder):
        raise UsageError(f"{script}: no such script; if it belongs to {option}, write {whole}")


def _before_the_script(program: Sequence[str], folder: str) -> list[str]:
    """Return the words before the first file in the folder; [] if there is no such file."""
    for at, word in enumerate(program):
        if os.path.isfile(os.path.join(folder, word)):
            return list(program[:at])
        if "/" in word or word.startswith("-") or word.endswith((".py", ".sh")):
            break
    return []
