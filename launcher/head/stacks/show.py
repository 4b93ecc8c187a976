"""Stacks of ranks as text for people, and as JSON for programs. Pure."""

from __future__ import annotations

from ...common.formats import versioned
from ...common.text import plain
from .culprit import explain
from .fold import fold
from .places import place_of
from .words import who

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from .fold import Picture, Stack
    from .frames import Frame
    from .view import RankView

BOLD, DIM, NORMAL = "\x1b[1m", "\x1b[2m", "\x1b[0m"

LONGEST = 120
"""Characters of a function's name in a list of frames."""


class Shown:
    """Writes stacks as text."""

    def __init__(self, views: Mapping[int, RankView], *, colour: bool = False) -> None:
        """Show these ranks; with colour, what matters is bold, and code of libraries dim."""
        self._views = views
        self._bold, self._dim, self._normal = (BOLD, DIM, NORMAL) if colour else ("", "", "")

    def text(self, *, whole: bool = False, gap: str = "\n\n") -> str:
        """Return the sentence and the folded stacks, without a line end.

        Args:
            whole: as in `fold`.
            gap: between two groups of ranks.
        """
        sentence = plain(explain(self._views).sentence)
        blocks = [f"{self._bold}{sentence}{self._normal}"]
        for picture, ranks in fold(self._views, whole=whole).items():
            blocks.append("\n".join(self._block(picture, ranks)))
        saved = sorted({(one.host, one.saved) for one in self._views.values() if one.saved})
        blocks += [f"saved on {host} in {plain(folder)}" for host, folder in saved]
        return gap.join(blocks)

    def _block(self, picture: Picture, ranks: list[int]) -> Iterator[str]:
        does = picture.several if len(ranks) > 1 else picture.does
        pid = f", pid {self._views[ranks[0]].pid}" if len(ranks) == 1 else ""
        head = plain(f"{who(ranks, self._views)}{pid}: {does}")
        yield f"{self._bold}{head}{self._normal}"
        for stack in picture.stacks:
            yield from self._stack(stack)

    def _stack(self, stack: Stack) -> Iterator[str]:
        indent = "    "
        if stack.title:
            yield f"  {_line(stack.title)}"
        for frame in stack.frames:
            yield f"{indent}{self._frame(frame)}"

    def _frame(self, frame: Frame) -> str:
        line = f":{frame.line}" if frame.line else ""
        text = _line(f"{frame.function[:LONGEST]} ({frame.path}{line})")
        return text if frame.user else f"{self._dim}{text}{self._normal}"


def _line(text: str) -> str:
    """Return text from a worker on one line."""
    return plain(text).replace("\n", " ")


def as_json(job_id: str, views: Mapping[int, RankView]) -> dict[str, Any]:
    """Return what `dsrun-job stacks --json` prints."""
    found = explain(views)
    fields = {
        "job_id": job_id,
        "sentence": found.sentence,
        "reason": found.reason.value,
        "odd": list(found.odd),
        "waiting": list(found.waiting),
        "sure": found.sure,
        "ranks": [_rank(view) for _, view in sorted(views.items())],
    }
    return versioned("stacks", fields)


def _rank(view: RankView) -> dict[str, object]:
    place = place_of(view)
    at = {"kind": place.kind.name.lower(), "function": place.call, "where": place.at}
    return {
        "rank": view.rank,
        "host": view.host,
        "pid": view.pid,
        "idle": view.idle,
        "problem": view.problem,
        "saved": view.saved,
        "place": at if place.known else None,
        "processes": [
            {**_fields(one), "threads": [_thread(row) for row in view.threads_of(one.pid)]}
            for one in view.processes
        ],
        "collectives": [_fields(one) for one in view.collectives],
    }


def _thread(row: object) -> dict[str, object]:
    fields = _fields(row)
    del fields["pid"]
    return fields


def _fields(row: object) -> dict[str, object]:
    """Return the fields of a row without its rank, lists as such."""
    fields: dict[str, object] = row._asdict()  # type: ignore[attr-defined]
    fields.pop("rank", None)
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()
    }
