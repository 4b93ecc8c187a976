"""dsrun-topo: this machine as a tree, and the binding that workers would get on it."""

from __future__ import annotations

import os

from ...common import entry
from ...common.errors import UsageError


def run(words: list[str]) -> int:
    """Run the command with these arguments; return the exit code.

    Raises:
        UsageError: an option is unknown or has a bad value, or the binding is not possible.
    """
    from ...cli.parser import parse

    command = parse(words, os.environ, "dsrun-topo --help")
    if command.program:
        raise UsageError(
            f"dsrun-topo: unexpected argument '{command.program[0]}'; see dsrun-topo -h"
        )
    if {"host", "hostfile"} & command.given and (typed := _hosts(words)):
        raise UsageError(
            f"{typed}: dsrun-topo shows this machine; for others write dsrun {typed} ..."
            " --num_gpus 1 --no_local_rank --no_python dsrun-topo"
        )
    if command.help:
        from ...cli.help.pages import of_tool

        entry.write(of_tool("dsrun-topo"))
        return 0
    entry.note(command.notes)
    from .command_plan import as_json, as_text, survey

    show = as_json if command.options.json else as_text
    entry.write(f"{show(survey(command.options))}\n")
    return 0


def _hosts(words: list[str]) -> str:
    """Return the option on the command line that names hosts, or ""."""
    names = (word.partition("=")[0] for word in words)
    return next((one for one in names if one in {"-H", "--host", "--hostfile"}), "")


def start() -> None:
    """Run the command `dsrun-topo` and exit."""
    entry.start(run)


if __name__ == "__main__":
    start()
