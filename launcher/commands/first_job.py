"""What to type after a check: the command of a first job on these nodes. Pure."""

from __future__ import annotations

import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..cli.tool_parser import ToolCommand
    from ..head.checks.verdict import Verdict

SCRIPT = "train.py"
"""Stands for a script that the user has not named."""


def words(command: ToolCommand, sync: str) -> list[str]:
    """Return the job with the options of the check, and `--sync` if nodes need it."""
    synced = ["--sync", sync] if sync else []
    return ["dsrun", *command.shared, *synced, *(command.rest or (SCRIPT,))]


def lines(command: ToolCommand, verdict: Verdict) -> Iterator[str]:
    """Yield what to type next, one command a line."""
    when = "then" if verdict.errors else "next"
    if len(verdict.answers) > 1 and not (verdict.errors or command.own["full"]):
        check = ["dsrun-check", *command.shared, "--full", *command.rest]
        yield f"next: {shlex.join(check)}  # tries every link between the nodes"
        when = "then"
    yield f"{when}: {shlex.join(words(command, verdict.sync))}"
