"""The completion of one command for zsh."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .commands import (
    COMMAND,
    FILE,
    FOLDER,
    HELP,
    HOST,
    JOB,
    JOB_VERBS,
    NOTE,
    NOTHING,
    PROGRAM,
    dashed,
    kind,
    quote,
    summary,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.cli.help.rows import Row

    from .commands import Command

SCRIPT = """\
#compdef {name}
# Completion of {name} for zsh.
# {note}

local -a options
options=(
{options}
)
{dashed}
_arguments -S -A '-*' $options {words}
"""

# The names with dashes are offered where one has been typed, as there are twice as many otherwise.
DASHED = """\
if [[ -n ${{words[(r)--*-*]}} ]]; then
    options+=(
{options}
    )
fi
"""

ACTIONS = {FILE: "_files", FOLDER: "_path_files -/", HOST: "_hosts", COMMAND: "_command_names -e"}
WORDS = {
    PROGRAM: "':program:_files' '*:argument:_files'",
    JOB: f"""'*:job:compadd -- {JOB_VERBS} ${{(f)"$(dsrun-job list 2>/dev/null |"""
    """ sed -e 1d -e "s/ .*//")"}'""",
    NOTHING: "",
}


def script(command: Command) -> str:
    """Return the script for one command."""
    rows = command.rows
    options = "\n".join(f"    {spec}" for one in rows for spec in _specs(one, one.names))
    more = [spec for one in rows for spec in _specs(one, _dashed(one))]
    names = "\n".join(f"        {spec}" for spec in more)
    return SCRIPT.format(
        name=command.name,
        note=NOTE,
        options=options,
        dashed=DASHED.format(options=names) if more else "",
        words=WORDS[command.words],
    )


def _dashed(one: Row) -> tuple[str, ...]:
    return tuple(dashed(name) for name in one.names if "_" in name)


def _specs(one: Row, names: tuple[str, ...]) -> Iterator[str]:
    """Return a specification of `_arguments` for each of these names of an option."""
    every = " ".join([*one.names, *_dashed(one)])
    before = "*" if one.repeatable else f"({every})"
    value = f":{'' if one is not HELP else ':'}{_escape(one.metavar)}:{_action(one)}"
    for name in names:
        shown = f"{name}{_value_sign(name)}" if one.metavar else name
        about = f"[{_escape(summary(one))}]"
        yield quote(f"{before}{shown}{about}{value if one.metavar else ''}")


def _value_sign(name: str) -> str:
    """Return what says that a value may be in the same word: `--name=value`, `-Xvalue`."""
    return "=" if name.startswith("--") else "+"


def _action(one: Row) -> str:
    if values(one):
        return f"({' '.join(values(one))})"
    return ACTIONS.get(kind(one), " ")


def _escape(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)
