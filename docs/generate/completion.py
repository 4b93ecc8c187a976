"""Write the completion of all commands for bash, zsh and fish, below `share/`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import bash, fish, zsh
from .commands import commands

if TYPE_CHECKING:
    from .commands import Command


def files() -> dict[str, str]:
    """Return every script by its path from the root."""
    return {path: text for command in commands() for path, text in _scripts(command).items()}


def _scripts(command: Command) -> dict[str, str]:
    name = command.name
    return {
        f"share/bash-completion/completions/{name}": bash.script(command),
        f"share/zsh/site-functions/_{name}": zsh.script(command),
        f"share/fish/vendor_completions.d/{name}.fish": fish.script(command),
    }
