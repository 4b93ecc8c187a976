"""Decides whether a job hangs, from two views of all its ranks some time apart. Pure.

A job hangs if none of its ranks is active, and there is a further reason to think so: ranks wait
for another rank, or a process cannot run, or waits for an event that nobody will cause. A rank that
waits for others may use the CPU for that, or print something in another thread: its stack shows the
wait.
"""

from __future__ import annotations

import re
from enum import IntEnum
from math import inf

from ...common.records import NamedTuple
from ..stacks.messages import CLIENT, CLIENTS, CONNECTION, NETWORK_UNKNOWN
from ..stacks.runner_culprit import Reason, explain
from ..stacks.runner_rank_words import FOR_CHILDREN, culprit_child
from ..stacks.runner_wait_kinds import (
    COMPLETED,
    FOR_OTHERS,
    PERHAPS_FOR_OTHERS,
    Kind,
    awaits,
    of_process,
    of_thread,
    place_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..stacks.runner_culprit import WaitExplanation
    from ..stacks.runner_view import RankView

    Views = Mapping[int, RankView]
    from collections.abc import Iterable, Mapping

    from ..stacks.messages import ThreadStack

ALONE = {Reason.STOPPED, Reason.BLOCKED, Reason.CHILD, Reason.MISMATCH, Reason.BEHIND}
"""Reasons that suffice, even if no other rank seems to wait."""

WITHIN = {Kind.LOCK, Kind.NATIVE, Kind.THREAD, Kind.QUEUE, Kind.GIL}
"""Waits that only the rank's own processes can end, while none of these is active."""

LOCKED = {Kind.LOCK, Kind.NATIVE}
"""Waits in a process of a rank that nothing but this process can end."""

RECEIVING = 8192
"""Most bytes a second that a merely waiting rank receives."""

LONGER = 3
"""Number of timeouts after which a doubtful hang is reported: a rank computes at one place while
the others wait for it, or no rank waits for another."""

NEARLY = 0.9
"""Part of the timeout that is enough where looks at the stacks show for how long a rank waits."""

PATIENT = {Kind.SLEEP, Kind.SIGNAL, Kind.DEBUGGER}
"""Waits that a program has chosen: nothing is missing there."""

MAY_BE_A_SERVER = "it may be a server that waits for requests"

MAY_BE_A_WAIT = "it may be waiting for something that is not a rank"

UNREAD = {Reason.UNKNOWN, Reason.SILENT}
"""Reasons that follow from missing stacks."""

MAY_BE_AT_WORK = "it may be working"
"""The problem of a rank whose stack could not be read in time, as on a busy node."""

IN_TIME = re.compile(r"^no stacks within|^py-spy did not answer in time$")
"""Problems that reveal nothing about a rank's activity (`features/stacks/`: `runner_collect` and
`node_py_spy`)."""

TIMED = re.compile(r"\b(Timer\.run|Event\.wait|sleep) \(")
"""Functions in which a thread waits for a limited time, and may then continue."""


class Stay(NamedTuple):
    """The seconds that a rank has been at its place.

    Attributes:
        least: since it was first seen there.
        most: the time since it was last seen elsewhere; infinity for never.
    """

    least: float
    most: float = inf


class Judgement(NamedTuple):
    """The result of comparing two views.

    Attributes:
        hang: the explanation; None if the job does not hang.
        working: the active ranks, which speak against a hang.
        again: seconds after which it may be a hang, if known; else 0.0.
    """

    hang: WaitExplanation | None
    working: tuple[int, ...] = ()
    again: float = 0.0


def judge(
    before: Views,
    now: Views,
    timeout: float,
    passed: float,
    stays: Mapping[int, Stay],
) -> Judgement:
    """Return whether a job has hung for the timeout.

    Args:
        before: the ranks at an earlier time.
        now: the ranks; the `idle` of each is the time for which it has been inactive.
        timeout: seconds.
        passed: seconds from the earlier time to this one.
        stays: the time of each rank at its place.
    """
    least = RECEIVING * max(passed, 1.0)
    working = tuple(
        rank
        for rank, view in sorted(now.items())
        if not _stands(before.get(rank), view, timeout, least)
    )
    if working or not now or not _is_sure(now, timeout):
        return Judgement(None, working)
    known = explain({rank: view._replace(idle=stood(view)) for rank, view in now.items()})
    outside = waits_outside(known, now)
    if outside is Outside.YES:
        return Judgement(None)
    if not _is_hang(known, before, now):
        silent = outside <= Outside.READS and _is_silent(now, LONGER * timeout)
        return Judgement(known._replace(doubt=MAY_BE_A_WAIT) if silent else None)
    slack = (1 - NEARLY) * timeout
    still = min(_still(view, stays[rank], slack) for rank, view in now.items())
    if still < timeout - slack:
        return Judgement(None, again=timeout - still)
    return Judgement(known._replace(doubt=_doubt(known, now, outside)))


def _doubt(known: WaitExplanation, now: Views, outside: Outside) -> str:
    """Return another explanation than a hang, "" if no evidence suggests one."""
    if outside:
        return MAY_BE_A_SERVER
    if known.reason in UNREAD and any(_is_unread(now[rank]) for rank in known.odd):
        return MAY_BE_AT_WORK
    return MAY_BE_A_WAIT if _may_go_on(known, now) else ""


def _is_unread(view: RankView) -> bool:
    """Return whether the stack of a rank could not be read in time."""
    problems = view.problem, view.worker.problem if view.worker else ""
    return any(map(IN_TIME.search, problems))


def _still(view: RankView, stay: Stay, slack: float) -> float:
    """Return the seconds without a known action of a rank, or of gloo on its behalf.

    Moving between waits takes so little work that a rank may always seem idle. Reports and samples
    are taken at different moments; times may differ by some `slack`.
    """
    still = stood(view)
    fits = stay.least <= still <= stay.most + slack
    return min(quiet(view), still if fits else stay.least)


def stood(view: RankView) -> float:
    """Return for how long a rank has made no progress, even if it used the CPU."""
    return max(view.idle, unfinished(view))


def unfinished(view: RankView) -> float:
    """Return for how long a rank has been in a collective, 0.0 if none is recorded."""
    ages = (one.age for one in view.collectives if one.state != COMPLETED)
    return min(ages, default=0.0)


def _stands(before: RankView | None, now: RankView, timeout: float, least: float) -> bool:
    """Return whether a rank has made no progress between the two views.

    A rank that has received at least this number of bytes is active.
    """
    if before is None or before.pid != now.pid or has_moved(before, now):
        return False
    if received(before, now) > least:
        return False
    return now.idle >= timeout or _waits(now)


def _is_sure(now: Views, timeout: float) -> bool:
    """Return whether some rank does nothing, or all are in a collective by torch's records.

    Ranks that wait for each other most of the time may be found in the same line twice.
    """
    return any(one.idle >= timeout for one in now.values()) or all(map(_unfinished, now.values()))


def has_moved(before: RankView, now: RankView) -> bool:
    """Return whether its main thread or its collectives have moved."""
    there, here = main_frames(before), main_frames(now)
    moved = bool(there and here and there != here)
    return moved or calls(before) != calls(now) or _hears(before, now)


def main_frames(view: RankView) -> tuple[str, ...]:
    """Return the stack of a rank's main thread, () if unknown."""
    return next((one.frames for one in view.threads_of(view.pid) if one.main), ())


def received(before: RankView, now: RankView) -> int:
    """Return the number of bytes that a rank's connections have received between two views."""
    there, here = (sum(one.received for one in view.network) for view in (before, now))
    return abs(here - there)


def _hears(before: RankView, now: RankView) -> bool:
    """Return whether gloo has certainly exchanged data with other ranks between two views."""
    return quiet(now) < quiet(before) < inf


def quiet(view: RankView) -> float:
    """Return for how long gloo has exchanged no data with other ranks, infinity if unknown.

    torch does not record what gloo sends from one rank to another.
    """
    return min((one.quiet for one in view.network if one.quiet >= 0), default=inf)


def calls(view: RankView) -> dict[str, tuple[int, str]]:
    """Return the newest collective of each group, and how far it is."""
    newest = sorted(view.collectives, key=lambda one: one.sequence)
    return {one.group: (one.sequence, one.state) for one in newest}


def _waits(view: RankView) -> bool:
    """Return whether a rank waits for others though it uses the CPU, as with NCCL."""
    kind = place_of(view).kind
    return kind in FOR_OTHERS or (kind in {*PERHAPS_FOR_OTHERS, Kind.CODE} and _unfinished(view))


def _unfinished(view: RankView) -> bool:
    return any(one.state != COMPLETED for one in view.collectives)


def _is_hang(known: WaitExplanation, before: Views, views: Views) -> bool:
    """Return whether there is a reason why ranks that do nothing will not continue."""
    if known.reason in ALONE or (known.waiting and known.reason is not Reason.NOBODY):
        return True
    kinds = {rank: place_of(view).kind for rank, view in views.items()}
    others = {*kinds.values()} <= FOR_OTHERS | PERHAPS_FOR_OTHERS
    foreign = {*kinds.values()} == {Kind.KEY}  # which a process of another job may set
    for_others = len(views) > 1 and others and not foreign
    within = (rank for rank, kind in kinds.items() if kind in WITHIN)
    stays = any(place_of(before[rank]).kind is kinds[rank] for rank in within)
    locked = any(all(map(_has_locked_child, (before[rank], views[rank]))) for rank in views)
    return for_others or stays or locked or known.reason is Reason.DIFFERENT


def _is_silent(views: Views, seconds: float) -> bool:
    """Return whether all ranks have been inactive for this time, and wait for an event."""
    places = [place_of(view) for view in views.values()]
    waits = any(one.known and one.kind not in PATIENT for one in places)
    return waits and all(view.idle >= seconds for view in views.values())


def _may_go_on(known: WaitExplanation, views: Views) -> bool:
    """Return whether no rank waits for another, and some rank's wait may be served."""
    kinds = {rank: place_of(view).kind for rank, view in views.items()}
    others = FOR_OTHERS | PERHAPS_FOR_OTHERS - LOCKED
    if known.reason in ALONE or others.intersection(kinds.values()):
        return False
    timed = (_is_timed(views[rank]) for rank, kind in kinds.items() if kind in LOCKED)
    return bool({Kind.QUEUE, Kind.THREAD}.intersection(kinds.values())) or any(timed)


def _is_timed(view: RankView) -> bool:
    """Return whether another thread of a rank waits for a time."""
    threads = view.threads_of(view.pid)[1:]
    return any(TIMED.search(frame) for one in threads for frame in one.frames)


def _has_locked_child(view: RankView) -> bool:
    """Return whether a rank waits for a child process that waits for a lock in its code."""
    child = culprit_child(view) if place_of(view).kind in FOR_CHILDREN else None
    return child is not None and of_process(view, child.pid).kind in LOCKED


SERVING = re.compile(r"\b(serve_forever|wait_for_termination|accept|_serve) \(")
"""Functions that wait for clients for any time."""

EVENT_LOOP = re.compile(r"\brun_forever \(")
"""Functions that wait for clients or for anything else."""

OWN = re.compile(
    r"/multiprocessing/(managers|resource_sharer|resource_tracker|forkserver|pool|queues)\.py"
    r"|/concurrent/futures/process\.py"
)
"""Files of threads that serve, or read from, processes of the job: managers, pools, and shared
tensors."""

HANDED_OVER = {
    *(Kind.LOCK, Kind.QUEUE, Kind.THREAD, Kind.NATIVE),
    *(Kind.SLEEP, Kind.SIGNAL, Kind.IO, Kind.CODE),
}
"""Waits of a server's main thread for requests that another thread receives."""

FROM_ONE = re.compile(r"(i?broadcast|scatter|i?recv|batch_isend_irecv).*")
"""Calls in which ranks wait for data of one certain rank, like a server for requests."""


class Outside(IntEnum):
    """Waits of ranks for somebody outside of the job.

    Attributes:
        READS: they wait for input, or on a connection that they made.
        PERHAPS: they may be servers.
    """

    NO = 0
    READS = 1
    PERHAPS = 2
    YES = 3


def waits_outside(known: WaitExplanation, views: Mapping[int, RankView]) -> Outside:
    """Return the waits of the ranks on which the job's progress depends."""
    requests = [place_of(views[rank]) for rank in known.waiting if rank not in known.odd]
    served = all(one.kind in FOR_OTHERS and FROM_ONE.fullmatch(one.call) for one in requests)
    found = (_outside(views[rank], served=served) for rank in known.odd or views)
    return max(found, default=Outside.NO)


def _outside(view: RankView, *, served: bool) -> Outside:
    """Return the wait of one rank; `served` says that all ranks waiting for it may be servers."""
    kind, main, others = place_of(view).kind, awaits(view), _others_await(view)
    threads = view.threads_of(view.pid)
    first, more = next(iter(threads), None), threads[1:]
    if kind is Kind.DEBUGGER or main == CLIENTS or _serves(first):
        return Outside.YES
    if served and main == CLIENT:
        return Outside.YES
    if kind in HANDED_OVER and (others & {CLIENTS, CLIENT} or _has_server(view, more)):
        return Outside.YES if served else Outside.PERHAPS
    reads = CONNECTION in {main, *others} or kind is Kind.IO or any(map(_reads, more))
    if main == NETWORK_UNKNOWN and _has_frame(first, EVENT_LOOP):
        return Outside.PERHAPS
    return Outside.READS if served and reads else Outside.NO


def _others_await(view: RankView) -> set[str]:
    """Return the waits of its other threads, and of the processes below it, on the network."""
    below = {one.awaits for one in view.network if one.pid != view.pid}
    return below | {one.others for one in view.network}


def _has_server(view: RankView, more: Iterable[ThreadStack]) -> bool:
    """Return whether a thread waits for clients by its stack, given the worker's threads."""
    below = (one for one in view.threads if one.pid != view.pid)
    return any(map(_serves, (*more, *below)))


def _serves(thread: ThreadStack | None) -> bool:
    return _has_frame(thread, SERVING) and not _has_frame(thread, OWN)


def _reads(thread: ThreadStack) -> bool:
    """Return whether a thread waits for data that no process of the job sends."""
    return of_thread(thread).kind is Kind.IO and not _has_frame(thread, OWN)


def _has_frame(thread: ThreadStack | None, what: re.Pattern[str]) -> bool:
    return thread is not None and any(map(what.search, thread.frames))
