"""The completion of one command for bash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.jobs.command import VERBS

from .commands import (
    COMMAND,
    FILE,
    FOLDER,
    NOTE,
    NOTHING,
    PROGRAM,
    VERB,
    kind,
    places,
    rows_of,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dsrun.launcher.cli.help.rows import OptionRow

    from .commands import Command

# bash has split words at `=`, `:` and `@`: they are joined again, and `head` is what readline keeps
# of the last one, from which it takes away an `@` as well. Names are compared with all dashes as
# underscores, so both spellings are known. Words to offer are compared here, as `compgen -W` would
# run what is in them.
SCRIPT = """\
# Completion of {name} for bash.
# {note}

_{function}() {{
    local rest=${{COMP_LINE:0:COMP_POINT}} next part='' at=0 mixing={mixing}
    local current option='' prefix='' head=''
    local -a typed=() words=()
    for ((; at <= COMP_CWORD; at++)); do
        next=${{rest#"${{rest%%[![:space:]]*}}"}}
        part=${{COMP_WORDS[at]}}
        ((at == COMP_CWORD)) && part=$next
        [[ $next == "$rest" ]] && ((at)) || typed+=('')
        typed[${{#typed[@]}} - 1]+=$part
        rest=${{next#"$part"}}
    done
    current=${{typed[${{#typed[@]}} - 1]}}
    [[ $part == *[!=:@]* ]] && head=${{current%"$part"}} || head=$current
    head=${{head%@}}
    COMPREPLY=()
    for ((at = 1; at < ${{#typed[@]}} - 1; at++)); do
        part=${{typed[at]//-/_}}
        case $part in
            {with_value}) ((++at == ${{#typed[@]}} - 1)) && option=$part ;;
{mixers}            _[!_]* | __?*) ;;
            __) words+=(--) mixing='' && break ;;
            *) words+=("${{typed[at]}}") && [[ ! $mixing ]] && break ;;
        esac
    done
    if [[ ! $option && $current == --?*=* && ($mixing || ! ${{words[*]}}) ]]; then
        option=${{current%%=*}} prefix=${{current%%=*}}=
        option=${{option//-/_}} current=${{current#*=}}
    fi
    case $option in
        '') ;;
{cases}
        *) return ;;
    esac
    if [[ $current == -* && ($mixing || ! ${{words[*]}}) ]]; then
{names}
        [[ $current == --*-* ]] && names=${{names//_/-}}
        _{function}_offer $names
        return
    fi
{words}
}}

_{function}_offer() {{
    local word
    for word; do
        [[ $word == "$current"* ]] || continue
        word=$prefix$word
        COMPREPLY+=("${{word#"$head"}}")
    done
}}
{look}
complete -F _{function} {name}
"""

LOOK = """
_{function}_look() {{
    local -a found before=("${{typed[@]:1:${{#typed[@]}}-2}}")
    mapfile -t found < <(dsrun-job --complete "$1" "$current" "${{before[@]}}" 2>/dev/null)
    _{function}_offer "${{found[@]}}"
    if [[ $1 == hosts && ! ${{COMPREPLY[*]}} ]]; then
        mapfile -t COMPREPLY < <(compgen -A hostname -- "$current")
    fi
}}
"""

CASE = "        {names}) {action}; return ;;"
MIXERS = """\
            {names}) mixing=yes ;;
"""
ACTIONS = {
    FILE: "compopt -o default",
    FOLDER: "compopt -o dirnames",
    COMMAND: 'mapfile -t COMPREPLY < <(compgen -c -- "$current")',
}
WORDS = {PROGRAM: "    compopt -o default", NOTHING: "    :"}
OF_VERB = """\
    case ${{words[0]-}}:${{#words[@]}} in
        :0) _{function}_offer {verbs} ;;
{places}
    esac"""


def script(command: Command) -> str:
    """Return the script for one command."""
    rows = [one for one in command.rows if one.metavar]
    of_verb = command.words == VERB
    return SCRIPT.format(
        name=command.name,
        note=NOTE,
        function=command.identifier,
        with_value=_pattern(rows) or "''",
        mixing="yes" if of_verb else "''",
        mixers=MIXERS.format(names=_names(command.mixing)) if command.mixing else "",
        cases="\n".join(_cases(command, rows)),
        names=_all_names(command),
        words=_of_verb(command) if of_verb else WORDS[command.words],
        look=LOOK.format(function=command.identifier) if command.looks else "",
    )


def _pattern(rows: Iterable[OptionRow]) -> str:
    return _names(name for one in rows for name in one.names)


def _names(names: Iterable[str]) -> str:
    return " | ".join(name.replace("-", "_") for name in names)


def _all_names(command: Command) -> str:
    """Return lines that set the names of options; those of dsrun-job depend on its verb."""
    every = f"        local names='{_spelled(command.rows)}'"
    if command.words != VERB:
        return every
    found: dict[str, list[str]] = {}
    for verb in VERBS:
        found.setdefault(_spelled(rows_of(command, verb)), []).append(verb)
    cases = (
        f"            {' | '.join(verbs)}) names='{names}' ;;" for names, verbs in found.items()
    )
    return "\n".join([every, "        case ${words[0]-} in", *cases, "        esac"])


def _spelled(rows: Iterable[OptionRow]) -> str:
    return " ".join(name for one in rows for name in one.names)


def _of_verb(command: Command) -> str:
    look = f"_{command.identifier}_look"
    lines = (f"        {' | '.join(at)}) {look} {kinds} ;;" for kinds, at in places().items())
    return OF_VERB.format(
        function=command.identifier, verbs=" ".join(VERBS), places="\n".join(lines)
    )


def _cases(command: Command, rows: Iterable[OptionRow]) -> Iterator[str]:
    """Return a line for each action, with all options that have it."""
    actions: dict[str, list[OptionRow]] = {}
    for one in rows:
        if action := _action(command, one):
            actions.setdefault(action, []).append(one)
    return (CASE.format(names=_pattern(found), action=action) for action, found in actions.items())


def _action(command: Command, one: OptionRow) -> str:
    """Return what offers the values of an option, "" if any value may be one."""
    call = f"_{command.identifier}"
    known = [f"{call}_offer {' '.join(values(one))}"] if values(one) else []
    looked = [f"{call}_look {one.offers}"] if one.offers else []
    return "; ".join([*known, *looked]) or ACTIONS.get(kind(one), "")
