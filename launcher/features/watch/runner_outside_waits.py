"""Detects ranks that wait for somebody outside of the job: a person, a debugger, a client. Pure.

A server without requests is as inactive as a job that hangs. It is recognized by its waits: its
main thread, or a thread that this one awaits, waits for clients. Many libraries also have such
threads, which serve the job's own processes; these do not count.
"""

from __future__ import annotations

import re
from enum import IntEnum

from ..stacks.messages import CLIENT, CLIENTS, CONNECTION, NETWORK_UNKNOWN
from ..stacks.runner_wait_kinds import FOR_OTHERS, Kind, awaits, of_thread, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..stacks.messages import ThreadStack
    from ..stacks.runner_culprit import WaitExplanation
    from ..stacks.runner_view import RankView

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
