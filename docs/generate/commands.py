"""The commands and their options, as manual pages and completion need them."""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

from dsrun.launcher.cli.help.rows import OptionRow, groups, row
from dsrun.launcher.cli.help.tools import TOOLS
from dsrun.launcher.cli.help.topics import TOPICS
from dsrun.launcher.features.exec.command import MIXING
from dsrun.launcher.features.full_check import command as check
from dsrun.launcher.features.jobs.command import VERBS

NOTE = "Written by `python -m docs.generate` from launcher/cli. Change those files instead."

HELP = OptionRow(
    ("-h", "--help"),
    "TOPIC",
    "Print help: -h the options that most people need, --help all options, --help TOPIC a topic.",
    default="no topic",
    values=tuple(TOPICS),
)
VERSION = OptionRow(("-V", "--version"), "", "Print the version.")

PROGRAM, VERB, NOTHING = "program", "verb", ""
"""What a command takes beside its options: a program with arguments, a verb, or nothing."""

FILE, FOLDER, COMMAND = "file", "folder", "command"
KINDS = {"FILE": FILE, "PATH": FILE, "DIR": FOLDER, "COMMAND": COMMAND}
"""What a value is, by its metavar."""


class Command(NamedTuple):
    """One command.

    Attributes:
        name: as it is typed.
        rows: its options.
        words: PROGRAM, VERB or NOTHING.
        mixing: options after which words and options may come in any order.
    """

    name: str
    rows: tuple[OptionRow, ...]
    words: str
    mixing: tuple[str, ...] = ()

    @property
    def identifier(self) -> str:
        """The name as part of the name of a function."""
        return self.name.replace("-", "_")

    @property
    def looks(self) -> bool:
        """Whether it has values or words that are looked for when Tab is pressed."""
        return self.words == VERB or any(one.offers for one in self.rows)


def commands() -> tuple[Command, ...]:
    """Return all commands, dsrun first."""
    options = [row(name) for group in groups().values() for name in group]
    words = {"dsrun-job": VERB, "dsrun-exec": PROGRAM, "dsrun-check": PROGRAM}
    mixing = {"dsrun-exec": MIXING, "dsrun-check": check.MIXING}
    tools = (
        Command(
            name,
            (*one.rows, *map(row, one.shared)),
            words.get(name, NOTHING),
            tuple(f"--{option}" for option in mixing.get(name, ())),
        )
        for name, one in TOOLS.items()
    )
    return (Command("dsrun", (*options, HELP, VERSION), PROGRAM), *tools)


def rows_of(command: Command, verb: str) -> tuple[OptionRow, ...]:
    """Return the options that dsrun-job takes with a verb."""
    taken = {f"--{name}" for name in (*VERBS[verb].options, "help")}
    return tuple(one for one in command.rows if not taken.isdisjoint(one.names))


def places() -> dict[str, list[str]]:
    """Return where each of the kinds of words may be, as `verb:number of words before it`.

    What comes before the last word may be left out, so each place may have the words behind it.
    """
    found: dict[str, list[str]] = {}
    for verb, takes in VERBS.items():
        for at in range(len(takes.words)):
            if kinds := ",".join(filter(None, takes.words[at:])):
                found.setdefault(kinds, []).append(f"{verb}:{at + 1}")
    return found


def values(one: OptionRow) -> tuple[str, ...]:
    """Return the values to offer for an option."""
    return one.choices or one.values


def kind(one: OptionRow) -> str:
    """Return FILE, FOLDER or COMMAND if the value of an option is one, else ""."""
    return KINDS.get(one.metavar, "")


def summary(one: OptionRow) -> str:
    """Return the first sentence on an option, shortened, without its full stop."""
    sentence = re.split(r"(?<=[^.])\. (?=[A-Z])", one.text)[0].removesuffix(".")
    return textwrap.shorten(sentence, 72, placeholder=" ...")


def dashed(name: str) -> str:
    """Return the name of an option with dashes instead of underscores."""
    return name.replace("_", "-")


def quote(text: str) -> str:
    """Return text in single quotes, as bash and zsh read it."""
    return "'" + text.replace("'", "'\\''") + "'"
