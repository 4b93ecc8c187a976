"""Groups ranks with equal stacks, and strips library internals from stacks. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple
from .runner_frames import Frame, parsed, since_fork
from .runner_rank_words import FOR_CHILDREN, STATES, culprit_child, state_or_place
from .runner_wait_kinds import DECORATORS, NOWHERE, of_process, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .messages import ProcessState, ThreadStack
    from .runner_view import RankView


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
