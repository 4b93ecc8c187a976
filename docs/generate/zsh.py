"""The completion of one command for zsh."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dsrun.launcher.features.jobs.command import VERBS

from .commands import (
    COMMAND,
    FILE,
    FOLDER,
    HELP,
    NOTE,
    NOTHING,
    PROGRAM,
    VERB,
    dashed,
    kind,
    places,
    quote,
    rows_of,
    summary,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.cli.help.rows import OptionRow

    from .commands import Command

SCRIPT = """\
#compdef {name}
# Completion of {name} for zsh.
# {note}

{look}local -a options
options=(
{options}
)
{dashed}
{arguments}
"""

LOOK = """\
_{function}_look() {{
    local -a before=("${{(@)words[2,CURRENT-1]}}")
    compadd -- ${{(f)"$(dsrun-job --complete $1 "$PREFIX" "${{(@)before}}" 2>/dev/null)"}} ||
        {{ [[ $1 == hosts ]] && _hosts }}
}}

"""

# The names with dashes are offered where one has been typed, as there are twice as many otherwise.
DASHED = """\
if [[ -n ${{words[(r)--*-*]}} ]]; then
    options+=(
{options}
    )
fi
"""

ACTIONS = {FILE: "_files", FOLDER: "_path_files -/", COMMAND: "_command_names -e"}
WORDS = {PROGRAM: " ':program:_files' '*:argument:_files'", NOTHING: ""}
PLAIN = "_arguments -S -A '-*' $options"
MIXING = """\
if (( ${{words[(I){names}]}} )); then
    _arguments -S $options '*:argument:_files'
else
    {plain}
fi"""

# The options of dsrun-job are those of its verb, and words have their places behind it.
OF_VERB = """\
local verb=${{words[(r)({verbs})]}}
local -a taken
case $verb in
{cases}
esac
(( $#taken )) && options=(${{(M)options:#*(${{(~j:|:)taken}})[=+\\[]*}})
_{function}_words() {{
    case $verb:$1 in
{places}
    esac
}}
_arguments -S $options '1:verb:({spaced})' '2:word: _{function}_words 1' \\
    '3:word: _{function}_words 2'"""


def script(command: Command) -> str:
    """Return the script for one command."""
    rows = command.rows
    options = "\n".join(f"    {spec}" for one in rows for spec in _specs(command, one, one.names))
    more = [spec for one in rows for spec in _specs(command, one, _dashed(one))]
    names = "\n".join(f"        {spec}" for spec in more)
    return SCRIPT.format(
        name=command.name,
        note=NOTE,
        options=options,
        dashed=DASHED.format(options=names) if more else "",
        look=LOOK.format(function=command.identifier) if command.looks else "",
        arguments=_arguments(command),
    )


def _arguments(command: Command) -> str:
    """Return what completes words and options."""
    if command.words == VERB:
        return _of_verb(command)
    plain = f"{PLAIN}{WORDS[command.words]}"
    names = f"({'|'.join(command.mixing)})"
    return MIXING.format(names=names, plain=plain) if command.mixing else plain


def _of_verb(command: Command) -> str:
    taken: dict[str, list[str]] = {}
    for verb in VERBS:
        rows = rows_of(command, verb)
        names = " ".join(name for one in rows for name in (*one.names, *_dashed(one)))
        taken.setdefault(names, []).append(verb)
    cases = (f"    {'|'.join(verbs)}) taken=({names}) ;;" for names, verbs in taken.items())
    look = f"_{command.identifier}_look"
    lines = (f"        {'|'.join(at)}) {look} {kinds} ;;" for kinds, at in places().items())
    return OF_VERB.format(
        function=command.identifier,
        verbs="|".join(VERBS),
        spaced=" ".join(VERBS),
        cases="\n".join(cases),
        places="\n".join(lines),
    )


def _dashed(one: OptionRow) -> tuple[str, ...]:
    return tuple(dashed(name) for name in one.names if "_" in name)


def _specs(command: Command, one: OptionRow, names: tuple[str, ...]) -> Iterator[str]:
    """Return a specification of `_arguments` for each of these names of an option."""
    every = " ".join([*one.names, *_dashed(one)])
    before = "*" if one.repeatable else f"({every})"
    value = f":{'' if one is not HELP else ':'}{_escape(one.metavar)}:{_action(command, one)}"
    for name in names:
        shown = f"{name}{_value_sign(name)}" if one.metavar else name
        about = f"[{_escape(summary(one))}]"
        yield quote(f"{before}{shown}{about}{value if one.metavar else ''}")


def _value_sign(name: str) -> str:
    """Return what says that a value may be in the same word: `--name=value`, `-Xvalue`."""
    return "=" if name.startswith("--") else "+"


def _action(command: Command, one: OptionRow) -> str:
    known = " ".join(values(one))
    if one.offers:
        look = f"_{command.identifier}_look {one.offers}"
        return f"{{compadd -- {known}; {look}}}" if known else f" {look}"
    return f"({known})" if known else ACTIONS.get(kind(one), " ")


def _escape(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)
