"""The pages of the help as text: short, complete, and by topic."""

from __future__ import annotations

import textwrap

from ...common.wording import either
from ..peers import REFUSED
from . import summary, topics
from .essentials import ESSENTIALS, EXAMPLES, NOTE
from .rows import groups, row
from .tools import TOOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .rows import OptionRow
    from .tools import Tool

SHORT, ALL = "short", "all"
"""The pages of `-h` and `--help`; any other word is a topic."""

WIDTH = 79
COLUMN = 26


def text(page: str) -> str:
    """Return a page: SHORT, ALL or the page of a topic."""
    if page == SHORT:
        return _short()
    return _complete() if page == ALL else _topic(page)


def of_tool(name: str) -> str:
    """Return the help of a command other than dsrun."""
    tool = TOOLS[name]
    starts = ("usage:", *("      " for _ in tool.usage[1:]))
    usage = [
        f"{start} {name} {one}".rstrip() for start, one in zip(starts, tool.usage, strict=True)
    ]
    rows = [_row(one) for one in tool.rows]
    shared = tool.shared_words or (_shared_options(tool) if tool.shared else "")
    more = (*tool.more, *([shared] if shared else []))
    parts = ["\n".join(usage), *_wrapped(tool.text), "\n".join(rows), *_wrapped(more)]
    return "\n\n".join(parts) + "\n"


def _shared_options(tool: Tool) -> str:
    names = ", ".join(f"--{name}" for name in tool.shared)
    return f"Options shared with dsrun (see `dsrun --help`): {names}."


def _short() -> str:
    lines = [*_usage(), "", *textwrap.wrap(summary.PURPOSE, WIDTH), ""]
    lines += [*(f"  {example}" for example in EXAMPLES), ""]
    for heading, rows in ESSENTIALS.items():
        lines += [f"{heading}:", *(_short_row(name, words) for name, words in rows.items())]
    lines += [
        "Help:",
        _columns("  --help", "all options"),
        _columns("  --help TOPIC", f"more about {either(list(topics.TOPICS))}"),
        _columns("  -V, --version", "the version"),
        "",
        *textwrap.wrap(NOTE, WIDTH),
    ]
    return "\n".join(lines) + "\n"


def _complete() -> str:
    parts = [
        "\n".join(_usage()),
        *_wrapped((summary.PURPOSE, *summary.RULES)),
        _examples(),
        *(f"{title}:\n{_rows(group)}" for title, group in groups().items()),
        _help_rows(),
        _refused(),
        _exit_codes(),
    ]
    return "\n\n".join(parts) + "\n"


def _topic(name: str) -> str:
    topic = topics.TOPICS[name]
    parts = [
        f"dsrun --help {name}: {topic.title}",
        *_wrapped(topic.text),
        f"Options:\n{_rows(topic.options)}",
    ]
    return "\n\n".join(parts) + "\n"


def _usage() -> list[str]:
    starts = ("usage: dsrun", *("       dsrun" for _ in summary.USAGE[1:]))
    return [
        f"{start} {words:<36}{meaning}"
        for start, (words, meaning) in zip(starts, summary.USAGE, strict=True)
    ]


def _wrapped(paragraphs: Iterable[str]) -> list[str]:
    """Return paragraphs within the width; one with a leading blank is unchanged."""
    return [one if one[0] == " " else textwrap.fill(one, WIDTH) for one in paragraphs]


def _examples() -> str:
    return "\n".join(f"  {line:<56}{meaning}" for line, meaning in summary.EXAMPLES)


def _rows(names: Iterable[str]) -> str:
    return "\n".join(_row(row(name)) for name in names)


def _row(shown: OptionRow) -> str:
    return _columns(f"  {', '.join(shown.names)} {shown.metavar}".rstrip(), shown.words)


def _short_row(name: str, words: str) -> str:
    shown = row(name)
    names = [one for one in shown.names if len(one) == 2 or one == f"--{name}"]
    return _columns(f"  {', '.join(names)} {shown.metavar}".rstrip(), words)


def _columns(left: str, words: str) -> str:
    """Return a row of two columns; words that do not fit beside the left column go below it."""
    about = textwrap.wrap(words, WIDTH - COLUMN, break_on_hyphens=False)
    beside = len(left) < COLUMN - 1
    first = f"{left:<{COLUMN}}{about.pop(0)}" if beside else left
    return "\n".join([first, *(f"{'':{COLUMN}}{line}" for line in about)])


def _help_rows() -> str:
    rows = [
        _columns("  -h", "Print the options that most people need."),
        _columns("  --help", "Print all options."),
        _columns("  --help TOPIC", f"Print more about {either(list(topics.TOPICS))}."),
        _columns("  -V, --version", "Print the version."),
    ]
    return "\n".join(["Help:", *rows])


def _refused() -> str:
    rows = [_columns(f"  --{name}", f"{why[0].upper()}{why[1:]}.") for name, why in REFUSED.items()]
    return "\n".join([f"{summary.REFUSED}:", *rows])


def _exit_codes() -> str:
    return "\n".join(["Exit codes:", *(f"  {code:<8}{why}" for code, why in summary.EXIT_CODES)])
