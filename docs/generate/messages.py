"""Write `docs/messages.md`: every message, what causes it and what to do about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .catalogue import AREAS, Message, difference, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .catalogue import Area
    from .strings import Found

HEAD = """\
<!-- Written by `python -m docs.generate` from docs/messages/*.toml. Change those files instead. -->

# Messages

Every message that dsrun prints, with its cause and what to do about it. Search this page for the
words of the message that do not change from job to job: a name in braces stands for a value, such
as `{host}` for the name of a host. Messages are built from parts, so what you see may be two or
three of these lines joined: a place, a cause and a hint.

Errors of the command line and of files that you name end dsrun with code 2 before a worker is
started. [failures.md](failures.md) explains the other exit codes.
"""


def files() -> dict[str, str]:
    """Return the page, by its path from the root."""
    return {"docs/messages.md": page(read().values())}


def page(areas: Iterable[Area]) -> str:
    """Return the page over these areas."""
    return "\n".join([HEAD, *(line for area in areas for line in _section(area))])


def _section(area: Area) -> Iterator[str]:
    if area.messages:
        yield f"## {AREAS[area.name]}\n"
        yield from (_entry(message) for message in area.messages)


def _entry(message: Message) -> str:
    """Return one entry: the message as code, its two sentences, and its variants."""
    lines = [f"* {code(message.text)}", f"  {message.cause} **Do:** {message.do}"]
    variants = list(dict.fromkeys(code(text) for text in message.also))
    if variants:
        lines.append(f"  Parts and variants: {', '.join(variants)}.")
    return "<br>\n".join(lines) + "\n"


def code(text: str) -> str:
    """Return `text` as code of Markdown, on one line."""
    text = " ".join(text.split())
    fence = "``" if "`" in text else "`"
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def skeleton(area: str) -> str:
    """Return TOML for what the catalogue of an area lacks; comments name what it has too much."""
    found = difference()
    lines = [_blank(one) for one in found.missing if one.area == area]
    lines += [f"# not in the code: {toml(text)}\n" for name, text in found.stale if name == area]
    return "\n".join(lines)


def summary() -> str:
    """Return how much each area lacks."""
    found = difference()
    lines = [f"{'area':<12} missing  not in the code"]
    for name in AREAS:
        missing = sum(one.area == name for one in found.missing)
        stale = sum(area == name for area, _ in found.stale)
        lines.append(f"{name:<12} {missing:>7}  {stale:>15}")
    return "\n".join([*lines, *(f"twice in {name}: {toml(text)}" for name, text in found.twice)])


def _blank(found: Found) -> str:
    where = f"# {found.path}:{found.line}"
    return f'{where}\n[[message]]\ntext = {toml(found.text)}\ncause = ""\ndo = ""\n'


def toml(text: str) -> str:
    """Return a string as TOML has it."""
    return json.dumps(text, ensure_ascii=False)
