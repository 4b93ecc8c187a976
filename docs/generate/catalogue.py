"""Read the catalogue of messages, `docs/messages/AREA.toml`, and compare it with the code.

    [[message]]
    text = "{flag}: there are {nodes} nodes; ask for at most that, or name more"
    also = ["other strings of the code that are variants or parts of this message"]
    cause = "When it is printed, in one or two sentences."
    do = "What the user does about it; 'Nothing.' if it only informs."

    [ignored]
    text = ["strings that are never read by a person, or are only words of a table or a layout"]

`also` may be left out, and so may `[ignored]`. Placeholders may have better names than in the code.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from .strings import ROOT, Found, collect, key

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

AREAS = {
    "cli": "The command line",
    "planning": "Planning a job",
    "resources": "Hosts, slots and schedulers",
    "specs": "What a job consists of",
    "common": "Files, values and the end of every command",
    "commands": "The other commands, and one node alone",
    "api": "Jobs from Python",
    "backends": "Reaching the hosts",
    "control": "The control line",
    "head": "The runner: start, run, elastic rounds, report",
    "node": "The nodes: checks, binding, workers",
    "accelerator": "Accelerators, samplers and shard queues",
}
"""Every area, by the name of its file, with its heading; in the order of the page."""


class Message(NamedTuple):
    """An entry of the catalogue.

    Attributes:
        text: the message.
        also: variants and parts of it that the code has as strings of their own.
        cause: when it is printed.
        do: what the user does about it.
    """

    text: str
    cause: str
    do: str
    also: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All strings of the code that the entry is about."""
        return (self.text, *self.also)


class Area(NamedTuple):
    """The catalogue of one part of the code."""

    name: str
    messages: tuple[Message, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All strings of the code that are in it."""
        return (*(text for one in self.messages for text in one.texts), *self.ignored)


def read(root: Path = ROOT) -> dict[str, Area]:
    """Return the catalogue of every area.

    Raises:
        ValueError: a file has something else in it than entries; says where and what.
    """
    return {name: _area(name, root / "docs" / "messages" / f"{name}.toml") for name in AREAS}


def _area(name: str, path: Path) -> Area:
    if not path.exists():
        return Area(name)
    with path.open("rb") as file:
        table = tomllib.load(file)
    if table.keys() - {"message", "ignored"} or table.get("ignored", {}).keys() - {"text"}:
        raise ValueError(f"{path.name}: expected [[message]] tables and one [ignored] with text")
    messages = tuple(_message(path.name, entry) for entry in table.get("message", ()))
    return Area(name, messages, tuple(table.get("ignored", {}).get("text", ())))


def _message(where: str, entry: Mapping[str, object]) -> Message:
    """Return one entry, once it is seen to be whole."""
    text, cause, do = (entry.get(field) for field in ("text", "cause", "do"))
    also = entry.get("also", [])
    extra = ", ".join(entry.keys() - {"text", "also", "cause", "do"})
    if not (isinstance(text, str) and isinstance(cause, str) and isinstance(do, str)) or extra:
        raise ValueError(f"{where}: {text}: expected text, cause and do, also if need be; {extra}")
    if not isinstance(also, list):
        raise ValueError(f"{where}: {text}: also: expected a list of strings")
    if not (cause.endswith(".") and do.endswith(".")):
        raise ValueError(f"{where}: {text}: cause and do: expected whole sentences")
    return Message(text, cause, do, tuple(also))


class Difference(NamedTuple):
    """What the catalogue and the code do not have in common; every area stands for itself.

    Attributes:
        missing: strings of the code that are in no entry, each once.
        stale: areas and texts of entries that are not in the code.
        twice: areas and texts that are in the catalogue more than once.
    """

    missing: tuple[Found, ...]
    stale: tuple[tuple[str, str], ...]
    twice: tuple[tuple[str, str], ...]


def compare(catalogue: Mapping[str, Area], code: Iterable[Found]) -> Difference:
    """Return what the catalogue and the code do not have in common."""
    first: dict[tuple[str, str], Found] = {}
    for one in code:
        first.setdefault((one.area, key(one.text)), one)
    texts = [(area.name, text) for area in catalogue.values() for text in area.texts]
    entered = Counter((name, key(text)) for name, text in texts)
    return Difference(
        missing=tuple(one for at, one in first.items() if at not in entered),
        stale=tuple((name, text) for name, text in texts if (name, key(text)) not in first),
        twice=tuple((name, text) for name, text in texts if entered[name, key(text)] > 1),
    )


def difference() -> Difference:
    """Return how the catalogue of this checkout differs from its code."""
    return compare(read(), collect())
