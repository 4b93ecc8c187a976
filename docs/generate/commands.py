"""The commands and their options, as manual pages and completion need them."""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

from dsrun.launcher.cli.help.rows import Row, groups, row
from dsrun.launcher.cli.help.tools import TOOLS
from dsrun.launcher.cli.help.topics import TOPICS

NOTE = "Written by `python -m docs.generate` from launcher/cli. Change those files instead."

HELP = Row(
    ("-h", "--help"),
    "TOPIC",
    "Print help: -h the options that most people need, --help all options, --help TOPIC a topic.",
    default="no topic",
    values=tuple(TOPICS),
)
VERSION = Row(("-V", "--version"), "", "Print the version.")

PROGRAM, JOB, NOTHING = "program", "job", ""
"""What a command takes beside its options: a program with arguments, a job, or nothing."""

JOB_VERBS = "list top logs stacks signal scale kill"
"""What dsrun-job can do."""

FILE, FOLDER, HOST, COMMAND = "file", "folder", "host", "command"
KINDS = {"FILE": FILE, "PATH": FILE, "DIR": FOLDER, "COMMAND": COMMAND}
"""What a value is, by its metavar."""


class Command(NamedTuple):
    """One command.

    Attributes:
        name: as it is typed.
        rows: its options.
        words: PROGRAM, JOB or NOTHING.
    """

    name: str
    rows: tuple[Row, ...]
    words: str

    @property
    def identifier(self) -> str:
        """The name as part of the name of a function."""
        return self.name.replace("-", "_")


def commands() -> tuple[Command, ...]:
    """Return all commands, dsrun first."""
    options = [row(name) for group in groups().values() for name in group]
    words = {"dsrun-job": JOB, "dsrun-exec": PROGRAM}
    tools = (
        Command(name, (*one.rows, *map(row, one.shared)), words.get(name, NOTHING))
        for name, one in TOOLS.items()
    )
    return (Command("dsrun", (*options, HELP, VERSION), PROGRAM), *tools)


def values(one: Row) -> tuple[str, ...]:
    """Return the values to offer for an option."""
    return one.choices or one.values


def kind(one: Row) -> str:
    """Return FILE, FOLDER, HOST or COMMAND if the value of an option is one, else ""."""
    return HOST if "--host" in one.names else KINDS.get(one.metavar, "")


def summary(one: Row) -> str:
    """Return the first sentence on an option, shortened, without its full stop."""
    sentence = re.split(r"(?<=[^.])\. (?=[A-Z])", one.text)[0].removesuffix(".")
    return textwrap.shorten(sentence, 72, placeholder=" ...")


def dashed(name: str) -> str:
    """Return the name of an option with dashes instead of underscores."""
    return name.replace("_", "-")


def quote(text: str) -> str:
    """Return text in single quotes, as bash and zsh read it."""
    return "'" + text.replace("'", "'\\''") + "'"
