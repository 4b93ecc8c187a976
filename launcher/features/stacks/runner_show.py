"""Stacks of ranks, equal ones together, as text for people and as JSON for programs. Pure."""

from __future__ import annotations

from ...common.formats import versioned
from ...common.records import NamedTuple
from ...common.text import plain
from .runner_culprit import explain
from .runner_frames import Frame, parsed, since_fork
from .runner_rank_words import FOR_CHILDREN, STATES, culprit_child, state_or_place, who
from .runner_wait_kinds import DECORATORS, NOWHERE, of_process, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from . import messages
    from . import runner_wait_kinds as wait_kinds
    from .messages import ProcessState, ThreadStack
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


class Stack(NamedTuple):
    """The displayed stack of a thread.

    Attributes:
        title: the owner, "" for the main thread of a worker.
        frames: the innermost first.
        hidden: the number of omitted frames.
    """

    title: str
    frames: tuple[Frame, ...]
    hidden: int = 0


class Picture(NamedTuple):
    """The displayed state of a rank; ranks with equal pictures are shown once.

    Attributes:
        does: the activity, in words for one rank.
        several: the activity, in words for several ranks.
    """

    does: str
    several: str
    stacks: tuple[Stack, ...]


def fold(views: Mapping[int, RankView], *, whole: bool = False) -> dict[Picture, list[int]]:
    """Return the pictures, each with its ranks, the most frequent last.

    Args:
        views: the ranks.
        whole: whether to show all threads of all processes with all frames; otherwise main threads,
            and the objects of waits within the ranks' own processes, without frames inside
            libraries.
    """
    groups: dict[Picture, list[int]] = {}
    for rank, view in sorted(views.items()):
        groups.setdefault(_picture(view, whole=whole), []).append(rank)
    return dict(sorted(groups.items(), key=lambda item: len(item[1])))


def _picture(view: RankView, *, whole: bool) -> Picture:
    place, worker = place_of(view), view.worker
    if worker is None:
        nothing = view.problem or "nothing was reported about it"
        return Picture(nothing, nothing, ())
    does, several = place.words(), place.words(several=True)
    if worker.state in STATES:
        does = several = state_or_place(view, worker)
    elif place is NOWHERE and worker.problem:
        does = several = worker.problem
    return Picture(does, several, tuple(_all_of(view) if whole else _main_of(view)))


def _main_of(view: RankView) -> Iterator[Stack]:
    """Yield the main thread of a worker, and of the process that it may wait for."""
    for thread in view.threads_of(view.pid)[:1]:
        yield _short("", thread)
    child = culprit_child(view) if place_of(view).kind in FOR_CHILDREN else None
    if child is not None:
        title = f"process {child.pid} {state_or_place(view, child)}"
        yield from (_short(title, one) for one in view.threads_of(child.pid)[:1])


def _all_of(view: RankView) -> Iterator[Stack]:
    for process in view.processes:
        threads = view.threads_of(process.pid)
        for thread in threads:
            frames = tuple(parsed(one) for one in thread.frames)
            yield Stack(_title(view, process, thread), frames)
        if not threads:
            yield Stack(f"{_of(view, process)} {_silent(view, process)}".lstrip(), ())


def _title(view: RankView, process: ProcessState, thread: ThreadStack) -> str:
    named = "" if thread.main else f"thread {thread.name or '?'}"
    runs = "runs" if thread.active else ""
    of = _of(view, process, command=thread.main)
    return ", ".join(part for part in (of, named, runs) if part)


def _of(view: RankView, process: ProcessState, *, command: bool = True) -> str:
    if process.pid == view.pid:
        return ""
    return f"process {process.pid}{f' ({process.command})' if command else ''}"


def _silent(view: RankView, process: ProcessState) -> str:
    if of_process(view, process.pid).known or process.state in STATES:
        return state_or_place(view, process)
    return process.problem or "has no Python stack"


def _short(title: str, thread: ThreadStack) -> Stack:
    frames = since_fork(parsed(one) for one in thread.frames)
    kept = tuple(_without_internals(frames))
    return Stack(title, kept, len(frames) - len(kept))


def _without_internals(frames: Sequence[Frame]) -> Iterator[Frame]:
    """Yield the user's frames, and the outermost frame of each stretch of library code between.

    In the innermost stretch the innermost frame is kept as well. Frames outside the user's first
    frame are left out, unless there is no such frame.
    """
    last = max((at for at, one in enumerate(frames) if one.user), default=len(frames) - 1)
    part: list[Frame] = []
    first = True
    for frame in frames[: last + 1]:
        if not frame.user:
            part.append(frame)
            continue
        yield from _ends(part, innermost=first)
        yield frame
        part, first = [], False
    yield from _ends(part, innermost=first)


def _ends(part: Sequence[Frame], *, innermost: bool) -> Iterable[Frame]:
    """Return the displayed ones of consecutive library frames: all native ones, if innermost."""
    native = [one for one in part if one.native and not one.function.startswith("0x")]
    python = [one for one in part if not one.native]
    called = [one for one in python if one.name not in DECORATORS] or python
    kept = [*native, *python[:1], *called[-1:]] if innermost else called[-1:]
    return dict.fromkeys(kept)
