"""Ranks and their places, in words. Pure."""

from __future__ import annotations

from ...head.fleet.hosts import some_of
from ...resources.ranges import show_slots
from .runner_wait_kinds import Kind, of_process, of_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .messages import ProcessState
    from .runner_view import RankView
    from .runner_wait_kinds import Place

NAMED = 3
"""Groups of ranks that a sentence names."""

IDLE = 1.0
"""Seconds without work that a sentence names."""

HOLDING = ", holding the interpreter's lock (GIL)"
"""The words about a thread that is active, according to `ThreadStack`, but makes no progress."""

STATES = {
    "T": "is stopped by a signal such as SIGSTOP",
    "t": "is stopped by a debugger or tracer",
    "Z": "has ended",
    "D": "is in an uninterruptible wait in the kernel",
}
"""The meanings of process states (proc(5)) in which no code of the process runs."""

FOR_CHILDREN = {Kind.DATA, Kind.QUEUE, Kind.PROGRAM, Kind.EXIT}
"""Waits that another process of the rank can end."""

FOR_THREADS = {Kind.LOCK, Kind.NATIVE, Kind.THREAD, Kind.QUEUE, Kind.GIL}
"""Waits that another thread of the process can end."""


def ranks_of(ranks: Sequence[int]) -> str:
    """Return e.g. `rank 7` or `ranks 0-6,9`."""
    return f"rank{'s' if len(ranks) > 1 else ''} {show_slots(sorted(ranks))}"


def who(ranks: Sequence[int], views: Mapping[int, RankView]) -> str:
    """Return ranks with their hosts: `rank 7 (n3)`."""
    hosts = dict.fromkeys(views[rank].host for rank in sorted(ranks))
    return f"{ranks_of(ranks)} ({some_of([*hosts])})"


def grouped(ranks: Sequence[int], places: Mapping[int, Place]) -> list[tuple[Place, list[int]]]:
    """Return the places of these ranks, each with its ranks; the most frequent first."""
    groups: dict[Place, list[int]] = {}
    for rank in sorted(ranks):
        groups.setdefault(places[rank]._replace(active=False, bare=False, own=False), []).append(
            rank
        )
    return sorted(groups.items(), key=lambda item: -len(item[1]))


def at_places(
    ranks: Sequence[int],
    places: Mapping[int, Place],
    views: Mapping[int, RankView] | None = None,
) -> str:
    """Return the activity of these ranks, one part for each place; given `views`, with details."""
    groups = grouped(ranks, places)
    parts = [
        f"{who(some, views)} {_in_detail(some, place, views)}"
        if views
        else f"{ranks_of(some)} {place.words(several=len(some) > 1)}"
        for place, some in groups[:NAMED]
    ]
    rest = [rank for _, some in groups[NAMED:] for rank in some]
    if rest:
        parts.append(f"{ranks_of(rest)} {'are' if len(rest) > 1 else 'is'} elsewhere")
    return "; ".join(parts)


def _in_detail(ranks: Sequence[int], place: Place, views: Mapping[int, RankView]) -> str:
    """Return the activity of ranks, its duration, and the processes for which they may wait."""
    idle = min(views[rank].idle for rank in ranks)
    for_long = idle >= IDLE
    does = place.words(several=len(ranks) > 1, for_long=for_long)
    seconds = f" for {idle:.0f} s" if for_long else ""
    locked = HOLDING if for_long and all(_active(views[rank]) for rank in ranks) else ""
    return f"{does}{seconds}{locked}{within(views[ranks[0]], place)}"


def _active(view: RankView) -> bool:
    return any(one.main and one.active for one in view.threads_of(view.pid))


def within(view: RankView, place: Place) -> str:
    """Return the process or thread of a rank for which it may wait, with its activity."""
    if place.kind in FOR_CHILDREN and (child := culprit_child(view)):
        return f", whose process {child.pid} {state_or_place(view, child)}"
    if place.kind in FOR_THREADS:
        for thread in view.threads_of(view.pid)[1:]:
            if thread.active and thread.frames:
                place = of_thread(thread)
                return f", while its thread {thread.name[:40]!r} {place.words()}"
    return ""


def culprit_child(view: RankView) -> ProcessState | None:
    """Return the child for which a rank may wait: stopped, else in the user's code, else ended.

    A process that has ended comes last: many programs leave such processes, for which nobody waits.
    """
    children = view.children
    stopped = [one for one in children if one.state in "Tt"]
    busy = [one for one in children if of_process(view, one.pid).own]
    ended = [one for one in children if one.state in STATES]
    return next(iter((*stopped, *busy, *ended)), None)


def state_or_place(view: RankView, process: ProcessState) -> str:
    """Return why a process does not run, or where it is."""
    place = of_process(view, process.pid)
    where = f", in {place.call} ({place.at})" if place.known else ""
    if process.state not in STATES:
        return place.words()
    kernel = f" ({process.waits_in})" if process.state == "D" and process.waits_in else ""
    return f"{STATES[process.state]}{kernel}{where if process.state != 'Z' else ''}"
