"""The completion of one command for bash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .commands import (
    COMMAND,
    FILE,
    FOLDER,
    HOST,
    JOB,
    JOB_VERBS,
    NOTE,
    NOTHING,
    PROGRAM,
    kind,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dsrun.launcher.cli.help.rows import Row

    from .commands import Command

# Names are compared with all dashes as underscores, so both spellings are known. bash has split
# `--name=value` into three words.
SCRIPT = """\
# Completion of {name} for bash.
# {note}

_{function}() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} at=1 option='' program='' value
    [[ $current == = ]] && current=''
    COMPREPLY=()
    while ((at < COMP_CWORD)); do
        case ${{COMP_WORDS[at]//-/_}} in
            {with_value})
                value=$((at + 1))
                [[ ${{COMP_WORDS[value]}} == = ]] && value=$((value + 1))
                ((value >= COMP_CWORD)) && option=${{COMP_WORDS[at]//-/_}} && break
                at=$((value + 1))
                ;;
            _[!_]* | __?*) at=$((at + 1)) ;;
            *) program=yes && break ;;
        esac
    done
    case $option in
        '') ;;
{cases}
        *) return ;;
    esac
    if [[ -n $program || $current != -* ]]; then
        {words}
        return
    fi
    local names={names}
    [[ $current == --*-* ]] && names=${{names//_/-}}
    mapfile -t COMPREPLY < <(compgen -W "$names" -- "$current")
}}

complete -F _{function} {name}
"""

CASE = "        {names}) {action}; return ;;"
OFFER = 'mapfile -t COMPREPLY < <(compgen {what} -- "$current")'
ACTIONS = {
    FILE: "compopt -o default",
    FOLDER: "compopt -o dirnames",
    HOST: OFFER.format(what="-A hostname"),
    COMMAND: OFFER.format(what="-c"),
}
WORDS = {
    PROGRAM: "compopt -o default",
    JOB: OFFER.format(
        what=f"-W \"{JOB_VERBS} $(dsrun-job list 2>/dev/null | sed -e 1d -e 's/ .*//')\""
    ),
    NOTHING: ":",
}


def script(command: Command) -> str:
    """Return the script for one command."""
    rows = [one for one in command.rows if one.metavar]
    return SCRIPT.format(
        name=command.name,
        note=NOTE,
        function=command.identifier,
        with_value=_pattern(rows) or "''",
        cases="\n".join(_cases(rows)),
        words=WORDS[command.words],
        names=f"'{' '.join(name for one in command.rows for name in one.names)}'",
    )


def _pattern(rows: Iterable[Row]) -> str:
    return " | ".join(name.replace("-", "_") for one in rows for name in one.names)


def _cases(rows: Iterable[Row]) -> Iterator[str]:
    """Return a line for each action, with all options that have it."""
    actions: dict[str, list[Row]] = {}
    for one in rows:
        if action := _action(one):
            actions.setdefault(action, []).append(one)
    return (CASE.format(names=_pattern(found), action=action) for action, found in actions.items())


def _action(one: Row) -> str:
    if values(one):
        return OFFER.format(what=f"-W '{' '.join(values(one))}'")
    return ACTIONS.get(kind(one), "")
