"""Write the manual pages of all commands: `share/man/man1/NAME.1`, in the macros of man(7)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dsrun.launcher import __version__
from dsrun.launcher.cli.help import summary
from dsrun.launcher.cli.help.rows import groups, row
from dsrun.launcher.cli.help.tools import TOOLS
from dsrun.launcher.cli.help.topics import TOPICS
from dsrun.launcher.cli.peers import REFUSED

from .commands import HELP, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dsrun.launcher.cli.help.rows import OptionRow
    from dsrun.launcher.cli.help.tools import Tool

NOTE = '.\\" Written by "python -m docs.generate" from launcher/cli. Change those files instead.'

OPTION = re.compile(r"(?<![\w-])--?[A-Za-z]\w*")
"""The name of an option within a text."""

SIGNALS = (
    (
        "SIGINT, SIGTERM, SIGHUP",
        "Stop all workers and exit with 128+N. --signals_to_handle chooses the signals. A second"
        " SIGINT kills the workers at once, and a third ends dsrun without waiting for the nodes.",
    ),
    ("SIGUSR1, SIGUSR2", "Passed on to every worker once."),
    ("SIGQUIT", "Print where each rank runs."),
    ("SIGTSTP", "Suspend dsrun; the workers continue."),
)

ENVIRONMENT = (
    (
        "DSRUN_NAME",
        "Sets the option --name: DSRUN_GRACE=60 means --grace 60, and DSRUN_QUIET=1 means --quiet.",
    ),
    ("PET_NAME", "Does the same for torchrun's options. DSRUN_NAME takes precedence."),
    ("DSRUN_TOKEN", "The secret that the nodes share with --no_ssh, unless --token_file is given."),
    (
        "DSRUN_TRUST",
        "Absolute paths of folders, separated by colons, whose dsrun.toml is trusted whatever it"
        " contains, as if named by --trust.",
    ),
    ("DS_ENV_FILE", "File of variables to send to the nodes, instead of .deepspeed_env."),
    ("DS_ACCELERATOR", "Kind of device to use, unless --accelerator or DSRUN_ACCELERATOR is set."),
    ("NO_COLOR", "If not empty, no colours are used unless --color always is given."),
)

FILE_TABLE = (
    ("/job/hostfile", "The hosts, if neither an option nor a scheduler names them."),
    (
        "~/.deepspeed_env, ~/.dsrun_env, ./.deepspeed_env, ./.dsrun_env",
        "Variables to send to the nodes, one NAME=VALUE per line.",
    ),
    ("~/.ssh/config, ~/.ssh/known_hosts", "The ssh configuration and known host keys."),
)


def files() -> dict[str, str]:
    """Return every manual page by its path from the root."""
    pages = {"dsrun": _dsrun(), **{name: _tool(name, tool) for name, tool in TOOLS.items()}}
    return {f"share/man/man1/{name}.1": page for name, page in pages.items()}


def _dsrun() -> str:
    others = ", ".join(f".BR {name} (1)" for name in TOOLS)
    lines = [
        *_head("dsrun", summary.TITLE),
        *_synopsis("dsrun", [words for words, _ in summary.USAGE]),
        ".SH DESCRIPTION",
        *_paragraphs((summary.PURPOSE, *summary.RULES)),
        ".SH OPTIONS",
        *(line for title, names in groups().items() for line in _group(title, map(row, names))),
        *_group("Help", (HELP, VERSION)),
        *_topics(),
        *_table("EXIT STATUS", summary.EXIT_CODES, sentence=True),
        *_table("SIGNALS", SIGNALS),
        *_table("ENVIRONMENT", ENVIRONMENT),
        *_table("FILES", FILE_TABLE),
        ".SH EXAMPLES",
        *(line for words, what in summary.EXAMPLES for line in _example(words, what)),
        ".SH COMPATIBILITY",
        *_paragraphs(
            (
                "dsrun accepts the options of deepspeed and torchrun. These are not supported:"
                f" {'; '.join(f'--{name} ({why})' for name, why in REFUSED.items())}.",
            )
        ),
        *_see_also(*others.split(", ")),
    ]
    return "\n".join(lines) + "\n"


def _tool(name: str, tool: Tool) -> str:
    lines = [
        *_head(name, tool.title),
        *_synopsis(name, tool.usage),
        ".SH DESCRIPTION",
        *_paragraphs(tool.text),
        ".SH OPTIONS",
        *(line for one in (*tool.rows, *map(row, tool.shared)) for line in _row(one)),
        *([".SH NOTES", *_paragraphs(tool.more)] if tool.more else []),
        *_see_also(".BR dsrun (1)"),
    ]
    return "\n".join(lines) + "\n"


def _head(name: str, title: str) -> Iterator[str]:
    yield NOTE
    yield f'.TH {name.upper()} 1 "" "dsrun {__version__}" "User Commands"'
    yield ".ad l"
    yield ".SH NAME"
    yield f"{escape(name)} \\- {escape(title)}"


def _synopsis(name: str, ways: Iterable[str]) -> Iterator[str]:
    yield ".SH SYNOPSIS"
    for at, words in enumerate(ways):
        if at:
            yield ".br"
        yield f"\\fB{escape(name)}\\fR {text(words)}".rstrip()


def _group(title: str, rows: Iterable[OptionRow]) -> Iterator[str]:
    yield f".SS {title}"
    for one in rows:
        yield from _row(one)


def _row(one: OptionRow) -> Iterator[str]:
    yield ".TP"
    names = ", ".join(f"\\fB{escape(name)}\\fR" for name in one.names)
    yield f"{names} \\fI{escape(one.metavar)}\\fR" if one.metavar else names
    yield text(one.words)


def _topics() -> Iterator[str]:
    yield ".SH TOPICS"
    for topic in TOPICS.values():
        yield f".SS {topic.title[0].upper()}{topic.title[1:]}"
        yield from _paragraphs(topic.text)


def _paragraphs(paragraphs: Iterable[str]) -> Iterator[str]:
    """Return paragraphs; one that begins with a blank is shown as it is."""
    for one in paragraphs:
        yield ".PP"
        if one.startswith(" "):
            yield from (".EX", *(protect(escape(line)) for line in one.splitlines()), ".EE")
        else:
            yield text(one)


def _table(title: str, entries: Iterable[tuple[str, str]], sentence: bool = False) -> Iterator[str]:
    yield f".SH {title}"
    for name, meaning in entries:
        words = f"{meaning[0].upper()}{meaning[1:]}." if sentence else meaning
        yield from (".TP", f"\\fB{escape(name)}\\fR", text(words))


def _example(words: str, what: str) -> Iterator[str]:
    yield from (".TP", f"\\fB{escape(words)}\\fR", text(f"{what[0].upper()}{what[1:]}."))


def _see_also(*pages: str) -> Iterator[str]:
    yield ".SH SEE ALSO"
    yield from (f"{page}{',' if page != pages[-1] else ''}" for page in pages)


def escape(words: str) -> str:
    """Return text in which no character has a meaning for troff."""
    return (
        words.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("~", "\\(ti")
    )


def protect(line: str) -> str:
    """Return a line that does not begin like a request."""
    return f"\\&{line}" if line[:1] in {".", "'"} else line


def text(words: str) -> str:
    """Return a line of text with the names of options in bold type, and never hyphenated."""
    bold = OPTION.sub(lambda name: f"\0fB\0%{name[0]}\0fR", words)
    return protect(escape(bold).replace("\0", "\\"))
