"""dsrun-topo: this machine as a tree, and what binding its workers would get here."""

from __future__ import annotations

import os

from ..common import entry
from ..common.errors import UsageError


def run(words: list[str]) -> int:
    """Print what these words of a command line ask for; returns the exit code.

    Raises:
        UsageError: an option is unknown or has a bad value, or cores cannot be bound so.
    """
    from ..cli.parser import parse

    command = parse(words, os.environ)
    if command.program:
        raise UsageError(f"dsrun-topo runs no program: '{command.program[0]}'? see dsrun-topo -h")
    if command.help:
        from ..cli.help.pages import of_tool

        entry.write(of_tool("dsrun-topo"))
        return 0
    from .topo_plan import survey

    entry.write(f"{survey(command.options)}\n")
    return 0


def start() -> None:
    """Run as a process of its own: what the command `dsrun-topo` calls."""
    entry.start(run)


if __name__ == "__main__":
    start()
