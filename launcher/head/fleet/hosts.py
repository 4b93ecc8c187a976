"""Short lists of hosts: one line per cause, with consecutive names joined."""

from __future__ import annotations

import re

from ...resources.ranges import runs_of, spell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NAMED = 5
"""Hosts, or ranges of hosts, named in one line; the rest are counted."""

LOOKED_AT = 4096
"""Hosts that are examined, twice a second, to name the missing ones."""


def by_cause(causes: Mapping[str, str]) -> list[str]:
    """Return one line per cause, with all its hosts; see `grouped`."""
    return grouped(causes.items())


def grouped(causes: Iterable[tuple[str, str]]) -> list[str]:
    """Return one line per cause, with all its hosts, given pairs of a host and a cause.

    Causes that differ only in the host's own name or address count as equal: in a line about
    several hosts, HOST and ADDRESS stand for these.
    """
    hosts: dict[str, list[tuple[str, str]]] = {}
    for host, cause in causes:
        hosts.setdefault(_nameless(cause, host), []).append((host, cause))
    return [
        f"{some_of([name for name, _ in found])}: {cause if len(found) > 1 else found[0][1]}"
        for cause, found in hosts.items()
    ]


def _nameless(cause: str, host: str) -> str:
    # No pattern per host: with thousands of hosts that would take seconds.
    named, *rest = cause.split(host)
    for part in rest:
        inside = re.match(r"[\w.-]", named[-1:]) or re.match(r"[\w-]", part)
        named += f"{host if inside else 'HOST'}{part}"
    return re.sub(r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b", "ADDRESS", named)


def some_of(names: Sequence[str], more: int = 0) -> str:
    """Return hosts in few words, as in `n1 .. n9, login` or `a, b and 12 more`.

    `more` hosts are only counted.
    """
    runs = runs_of(names)
    rest = more + sum(len(run) for run in runs[NAMED:])
    named = ", ".join(spell(run) for run in runs[:NAMED])
    return f"{named} and {rest} more" if rest else named


def waiting_line(total: int, waiting: Sequence[str]) -> str:
    """Return a progress line, for example "61/64 hosts, waiting for node7, node9, node41"."""
    named, rest = waiting[:LOOKED_AT], len(waiting[LOOKED_AT:])
    more = f", waiting for {some_of(named, rest)}" if waiting else " are ready"
    return f"{total - len(waiting)}/{total} hosts{more}"
