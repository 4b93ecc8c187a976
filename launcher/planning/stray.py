"""Hosts that stand apart from their list: the shell, or a blank, has cut it, or it is empty."""

from __future__ import annotations

import os

from ..common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..cli.parser import Command

_JOINED = {"host": ",", "include": "@", "exclude": "@"}
"""Options that list hosts, and what joins these."""


def check(command: Command, folder: str) -> None:
    """See that no list of hosts is empty, and that the script is not a host of one.

    Args:
        command: the command line.
        folder: where the workers run; scripts that do not lie there on this machine are not known.

    Raises:
        UsageError: it is; the message says what was meant.
    """
    lists = [name for name in _JOINED if name in command.given]
    for name in lists:
        if not getattr(command.options, name):
            raise UsageError(f"--{name} '': names no host; leave it out, or list some")
    if not lists or command.options.module or command.options.no_python:
        return
    hosts = _before_the_script(command.program, folder)
    if hosts:
        (name, sign) = next((name, _JOINED[name]) for name in lists)
        whole = sign.join([getattr(command.options, name).rstrip(sign), *hosts])
        raise UsageError(
            f"{hosts[0]}: no such script; are these hosts? One word lists them: --{name} {whole}"
        )


def _before_the_script(program: Sequence[str], folder: str) -> list[str]:
    """Return the words that stand where the script does, if a script lies here behind them."""
    for at, word in enumerate(program):
        if os.path.isfile(os.path.join(folder, word)):
            return list(program[:at])
        if "/" in word or word.startswith("-") or word.endswith((".py", ".sh")):
            break
    return []
