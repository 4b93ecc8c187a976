"""The suggestion after a check: the command of a first job on these nodes. Pure."""

from __future__ import annotations

import shlex

from ...head.fleet.hosts import some_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...cli.options import Options
    from ...cli.tool_parser import ToolCommand
    from ..quick_check.runner_verdict import CheckVerdict

SCRIPT = "train.py"
"""Stands for a script that the user has not named."""


def words(command: ToolCommand, sync: str) -> list[str]:
    """Return the job with the options of the check, and `--sync` if nodes need it."""
    synced = ["--sync", sync] if sync else []
    return ["dsrun", *command.shared, *synced, *(command.rest or (SCRIPT,))]


def lines(command: ToolCommand, verdict: CheckVerdict) -> Iterator[str]:
    """Yield the next commands, one a line; before them, the names to correct."""
    if verdict.unresolved:
        yield f"first: {_mend(verdict.unresolved, command.options)}"
        yield f"then: {_check(command, full=command.own['full'])}"
        return
    if mending := _script(command, verdict):
        yield f"first: {mending}"
        yield f"then: {_check(command, full=command.own['full'])}"
        return
    when = "then" if verdict.errors else "next"
    if len(verdict.answers) > 1 and not (verdict.errors or command.own["full"]):
        yield f"next: {_check(command, full=True)}  # tries every link between the nodes"
        when = "then"
    yield f"{when}: {shlex.join(words(command, verdict.sync))}"


def _script(command: ToolCommand, verdict: CheckVerdict) -> str:
    """Return advice on a script or a Python that no node has, "" if there is no such error."""
    script, python = "".join(command.rest[:1]), command.options.python
    errors = "\n".join(verdict.errors)
    if script and "no such script: " in errors and not verdict.sync:
        from ...cli.script_words import meant
        from ...common.scripts import present

        folder = command.options.workdir or "."
        there = present(script, folder)
        copied = ", or --sync . if the nodes lack them" if there else ""
        return f"correct the name {script}{meant(script, folder) or there + copied}"
    if python and f"no Python at {python} " in errors:
        return f"correct --python {python}"
    return ""


def _mend(names: Sequence[str], options: Options) -> str:
    given = "in --host" if options.host else "where it is listed"
    where = f"in {options.hostfile}" if options.hostfile else given
    known = "make it resolvable (DNS, /etc/hosts, HostName in ~/.ssh/config)"
    return f"{some_of(names)}: correct the name {where}, or {known}"


def _check(command: ToolCommand, *, full: bool) -> str:
    more = ["--full"] if full else []
    return shlex.join(["dsrun-check", *command.shared, *more, *command.rest])
