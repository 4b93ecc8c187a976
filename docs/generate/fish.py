"""The completion of one command for fish."""

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
    PROGRAM,
    dashed,
    kind,
    summary,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.cli.help.rows import Row

    from .commands import Command

# Names are compared with all dashes as underscores, so both spellings are known.
SCRIPT = """\
# Completion of {name} for fish.
# {note}

function __{function}_options --description 'Test whether an option may come next'
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
                return 1
        end
    end
    return 0
end

function __{function}_dashes --description 'Test whether an option is typed with dashes'
    string match --quiet -- '--*-*' (commandline -opc) (commandline -ct)
end

{lines}
"""

ACTIONS = {
    FILE: "-r -F",
    FOLDER: "-x -a '(__fish_complete_directories)'",
    HOST: "-x -a '(__fish_print_hostnames)'",
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
        lines="\n".join(_lines(command)),
    )


def _lines(command: Command) -> Iterator[str]:
    start = f"complete -c {command.name}"
    options = f"__{command.identifier}_options"
    dashes = f"'{options}; and __{command.identifier}_dashes'"
    if command.words != PROGRAM:
        yield f"{start} -f"
    if command.words == JOB:
        shown = 'string replace -r " .*" "" | string match -v NAME'
        yield f"{start} -a '{JOB_VERBS} (dsrun-job list 2>/dev/null | {shown})'"
    for one in command.rows:
        rest = _rest(one)
        yield f"{start} -n {options} {_names(one.names)} {rest}"
        if names := tuple(dashed(name) for name in one.names if "_" in name):
            yield f"{start} -n {dashes} {_names(names)} {rest}"


def _names(names: tuple[str, ...]) -> str:
    return " ".join(f"-l {one[2:]}" if one.startswith("--") else f"-s {one[1:]}" for one in names)


def _rest(one: Row) -> str:
    """Return what the value of an option may be, and the description."""
    about = f"-d {_quote(summary(one))}"
    if not one.metavar:
        return about
    offered = f"-x -a '{' '.join(values(one))}'" if values(one) else ACTIONS.get(kind(one), "-x")
    return f"{offered} {about}"


def _quote(text: str) -> str:
    """Return text in single quotes, as fish reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
