"""The records of torch's flight recorder, as rows of `StacksAnswer`. Pure.

The format is torch's, 2.4 to 2.13 (`torch/csrc/distributed/c10d/FlightRecorder.hpp`), as JSON or as
a pickle. Records come from a worker, and no part is trusted.
"""

from __future__ import annotations

from ...common.text import read_json
from .hook.sitecustomize import MAIN_THREAD
from .messages import Collective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

NEWEST = 4
"""Collectives of each group that are kept: the newest, and as many on either side of the first
unfinished one, where another rank may be."""

GROUPS = 16
"""Groups of a worker that are kept."""

MEMBERS = 256
"""Maximum size of a group whose ranks are reported; they are left out for larger groups."""

FRAMES = 100
"""Frames of a stack."""

LONGEST = 1000
"""Characters of a frame, which has a whole path."""

SHOWN = 200
"""Characters of a text."""

_OWN = ("/torch/distributed/", "/torch/nn/", "/torch/autograd/")
"""Folders of frames that are not the user's."""


def newest(rank: int, record: object, now: float) -> Iterator[Collective]:
    """Yield the newest collectives of each group, in order, given the time of day."""
    if not isinstance(record, dict) or not isinstance(record.get("entries"), (list, tuple)):
        return
    by_group: dict[str, list[Mapping[str, Any]]] = {}
    for entry in record["entries"]:
        if isinstance(entry, dict) and not entry.get("is_p2p"):
            by_group.setdefault(_group(entry), []).append(entry)
    for group in list(by_group)[-GROUPS:]:
        entries = by_group[group]
        for entry in _kept(entries):
            yield _collective(rank, group, _members(record, entry), entry, now)


def frames(record: object) -> tuple[str, ...]:
    """Return the stack of a worker's main thread, the innermost frame first; () if it is no such.

    Each is written as in `ThreadStack`.
    """
    found = record.get(MAIN_THREAD) if isinstance(record, dict) else None
    known = found[:FRAMES] if isinstance(found, list) else []
    return tuple(_text(one, LONGEST) for one in known if isinstance(one, str))


def _kept(entries: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    count = len(entries)
    first = next((at for at, one in enumerate(entries) if _state(one) != "completed"), count)
    until = first + NEWEST
    return (*entries[max(0, first - NEWEST) : until], *entries[max(until, count - NEWEST) :])


def _collective(
    rank: int, group: str, members: tuple[int, ...], entry: Mapping[str, Any], now: float
) -> Collective:
    created = _number(entry.get("time_created_ns")) / 1e9
    return Collective(
        rank=rank,
        group=group,
        members=members,
        sequence=int(_number(entry.get("collective_seq_id"))),
        operation=_text(entry.get("profiling_name")).rpartition(":")[2],
        sizes=_text(entry.get("input_sizes")),
        types=_text(entry.get("input_dtypes")),
        state=_state(entry),
        age=round(max(0.0, now - created), 3) if created else 0.0,
        where=_where(entry.get("frames")),
    )


def _state(entry: Mapping[str, Any]) -> str:
    """Return an entry's state; gloo never says "completed", but drops ended entries ("retired")."""
    return "completed" if entry.get("retired") is True else _text(entry.get("state"))


def _group(entry: Mapping[str, Any]) -> str:
    """Return the group's description, which begins with its name if that says more."""
    names = entry.get("process_group")
    known = names if isinstance(names, (list, tuple)) else ()
    name, description, *_ = (*(_text(one) for one in known if isinstance(one, str)), "", "")
    if description in {"", "undefined"}:
        return name
    return description if description == "default_pg" else f"{name} {description}"


def _members(record: Mapping[str, Any], entry: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the ranks of a group, () if unknown."""
    config, names = record.get("pg_config"), entry.get("process_group")
    name = names[0] if isinstance(names, (list, tuple)) and names else None
    group = config.get(name) if isinstance(config, dict) and isinstance(name, str) else None
    ranks = group.get("ranks") if isinstance(group, dict) else None
    try:
        found = read_json(ranks) if isinstance(ranks, str) else ranks
    except ValueError:
        return ()
    if not isinstance(found, (list, tuple)) or len(found) > MEMBERS:
        return ()
    return tuple(one for one in found if type(one) is int and 0 <= one < 1 << 32)


def _where(frames: object) -> str:
    """Return the user's frame that called the collective; "" if unknown."""
    for frame in frames if isinstance(frames, (list, tuple)) else ():
        if isinstance(frame, dict):
            file = _text(frame.get("filename"))
            if not any(folder in file for folder in _OWN):
                return f"{_text(frame.get('name'))} ({file}:{int(_number(frame.get('line')))})"
    return ""


def _number(value: object) -> float:
    known = type(value) in {int, float} and abs(value) < 1 << 62  # type: ignore[arg-type]
    return value if known else 0  # type: ignore[return-value]


def _text(value: object, most: int = SHOWN) -> str:
    """Return a short text; a list of numbers has Python's form."""
    found = value if isinstance(value, str) else "" if value is None else str(value)
    return found[:most].encode("utf-8", "replace").decode()
