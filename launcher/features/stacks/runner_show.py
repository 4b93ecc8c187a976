"""Stacks of ranks as text for people, and as JSON for programs. Pure."""

from __future__ import annotations

from ...common.formats import versioned
from ...common.text import plain
from .runner_culprit import explain
from .runner_fold import fold
from .runner_rank_words import who
from .runner_wait_kinds import place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from . import messages
    from . import runner_wait_kinds as wait_kinds
    from .messages import ProcessState, ThreadStack
    from .runner_fold import Picture, Stack
    from .runner_frames import Frame
    from .runner_json_types import CollectiveJson, PlaceJson, ProcessJson, Rank, StacksJson, Thread
    from .runner_view import RankView

BOLD, DIM, NORMAL = "\x1b[1m", "\x1b[2m", "\x1b[0m"

LONGEST = 120
"""Characters of a function's name in a list of frames."""


class StackText:
    """Writes stacks as text."""

    def __init__(self, views: Mapping[int, RankView], *, colour: bool = False) -> None:
        """Show these ranks; with colour, important text is bold, and library code dim."""
        self._views = views
        self._bold, self._dim, self._normal = (BOLD, DIM, NORMAL) if colour else ("", "", "")

    def text(self, *, whole: bool = False, gap: str = "\n\n") -> str:
        """Return the sentence and the folded stacks, without a line end.

        Args:
            whole: see `fold`.
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
    return plain(text).replace("\n", " ")


def as_json(job_id: str, views: Mapping[int, RankView]) -> dict[str, Any]:
    """Return the output of `dsrun-job stacks --json`."""
    found = explain(views)
    fields: StacksJson = {
        "job_id": job_id,
        "sentence": found.sentence,
        "reason": found.reason,
        "odd": found.odd,
        "waiting": found.waiting,
        "sure": found.sure,
        "ranks": [_rank(view) for _, view in sorted(views.items())],
    }
    return versioned("stacks", fields)


def _rank(view: RankView) -> Rank:
    return {
        "rank": view.rank,
        "host": view.host,
        "pid": view.pid,
        "idle": view.idle,
        "problem": view.problem,
        "saved": view.saved,
        "place": _place(place_of(view)),
        "processes": [_process(one, view) for one in view.processes],
        "collectives": [_collective(one) for one in view.collectives],
    }


def _place(place: wait_kinds.Place) -> PlaceJson | None:
    if not place.known:
        return None
    return {"kind": place.kind.name.lower(), "function": place.call, "where": place.at}


def _process(process: ProcessState, view: RankView) -> ProcessJson:
    return {
        "pid": process.pid,
        "parent": process.parent,
        "command": process.command,
        "state": process.state,
        "waits_in": process.waits_in,
        "source": process.source,
        "problem": process.problem,
        "threads": [_thread(one) for one in view.threads_of(process.pid)],
    }


def _thread(thread: ThreadStack) -> Thread:
    return {
        "name": thread.name,
        "main": thread.main,
        "active": thread.active,
        "frames": thread.frames,
    }


def _collective(collective: messages.Collective) -> CollectiveJson:
    return {
        "group": collective.group,
        "members": collective.members,
        "sequence": collective.sequence,
        "operation": collective.operation,
        "sizes": collective.sizes,
        "types": collective.types,
        "state": collective.state,
        "age": collective.age,
        "where": collective.where,
    }
