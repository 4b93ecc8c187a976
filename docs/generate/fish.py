"""The completion of one command for fish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.jobs.command import VERBS

from .commands import (
    COMMAND,
    FILE,
    FOLDER,
    NOTE,
    PROGRAM,
    VERB,
    dashed,
    kind,
    places,
    rows_of,
    summary,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.cli.help.rows import OptionRow

    from .commands import Command

# Names are compared with all dashes as underscores, so both spellings are known.
SCRIPT = """\
# Completion of {name} for fish.
# {note}

function __{function}_words --description 'Print the words before the cursor that are no options'
    set -l value no
    for word in (commandline -opc)[2..]
        if test $value = yes
            set value no
            continue
        end
        switch (string replace --all -- - _ $word)
            case '__*=*'
            case {with_value}
                set value yes
            case '_*'
            case '*'
                string escape -- $word
        end
    end
end

function __{function}_options --description 'Test whether an option may come next'
    set -l words (__{function}_words)
    {may_be_option}
end
{look}
function __{function}_dashes --description 'Test whether an option is typed with dashes'
    string match --quiet -- '--*-*' (commandline -opc) (commandline -ct)
end
{at}
{lines}
"""

LOOK = """
function __{function}_look --description 'Print what is there and may be the value or word'
    set -l typed (string replace -r '^--[^=]*=' '' -- (commandline -ct))
    set -l found (dsrun-job --complete $argv[1] "$typed" (commandline -opc)[2..] 2>/dev/null)
    printf '%s\\n' $found
    test $argv[1] = hosts -a -z "$found"; and __fish_print_hostnames
end
"""

AT = """
function __{function}_at --description 'Test whether a word comes next at one of these places'
    set -l words (__{function}_words)
    contains -- "$words[1]:"(count $words) $argv
end
"""

ACTIONS = {
    FILE: "-r -F",
    FOLDER: "-x -a '(__fish_complete_directories)'",
    COMMAND: "-x -a '(__fish_complete_command)'",
}


def script(command: Command) -> str:
    """Return the script for one command."""
    names = [name for one in command.rows if one.metavar for name in one.names]
    return SCRIPT.format(
        name=command.name,
        note=NOTE,
        function=command.identifier,
        with_value=" ".join(name.replace("-", "_") for name in names) or "''",
        may_be_option=_may_be_option(command),
        look=LOOK.format(function=command.identifier) if command.looks else "",
        at=AT.format(function=command.identifier) if command.words == VERB else "",
        lines="\n".join(_lines(command)),
    )


def _lines(command: Command) -> Iterator[str]:
    start = f"complete -c {command.name}"
    if command.words != PROGRAM:
        yield f"{start} -f"
    if command.words == VERB:
        yield from _words(command, start)
    for one in command.rows:
        rest, may = _rest(command, one), _test(command, one)
        yield f"{start} -n {_word(may)} {_names(one.names)} {rest}"
        if names := tuple(dashed(name) for name in one.names if "_" in name):
            may = f"{may}; and __{command.identifier}_dashes"
            yield f"{start} -n {_word(may)} {_names(names)} {rest}"


def _words(command: Command, start: str) -> Iterator[str]:
    """Return lines for the verbs, and for the words behind them."""
    at, look = f"__{command.identifier}_at", f"__{command.identifier}_look"
    yield f"{start} -n '{at} :0' -a '{' '.join(VERBS)}'"
    for kinds, where in places().items():
        yield f"{start} -n '{at} {' '.join(where)}' -a '({look} {kinds})'"


def _test(command: Command, one: OptionRow) -> str:
    """Return what tests whether an option may come next."""
    name = f"__{command.identifier}_options"
    if command.words != VERB:
        return name
    return " ".join([name, *(verb for verb in VERBS if one in rows_of(command, verb))])


def _may_be_option(command: Command) -> str:
    """Return what tests whether an option may follow these words."""
    if command.words == VERB:
        return 'test -z "$words"; or contains -- $words[1] $argv'
    mixing = f"string match -q -r -- '^({'|'.join(command.mixing)})$' (commandline -opc)"
    return 'test -z "$words"' + (f"; or {mixing}" if command.mixing else "")


def _names(names: tuple[str, ...]) -> str:
    return " ".join(f"-l {one[2:]}" if one.startswith("--") else f"-s {one[1:]}" for one in names)


def _rest(command: Command, one: OptionRow) -> str:
    """Return what the value of an option may be, and the description."""
    about = f"-d {_quote(summary(one))}"
    if not one.metavar:
        return about
    looked = [f"(__{command.identifier}_look {one.offers})"] if one.offers else []
    known = " ".join([*values(one), *looked])
    offered = f"-x -a '{known}'" if known else ACTIONS.get(kind(one), "-x")
    return f"{offered} {about}"


def _word(text: str) -> str:
    return _quote(text) if " " in text else text


def _quote(text: str) -> str:
    """Return text in single quotes, as fish reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
