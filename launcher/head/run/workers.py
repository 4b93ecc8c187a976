"""Which workers run where, and since when: what SIGQUIT shows, and who is left when others end."""

from __future__ import annotations

from ...common.values import NamedTuple
from ...resources.ranges import show_slots
from ..report.report import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop, Timer
    from ...control.messages import Exit, Started
    from .run_node import RunNode

PATIENCE = 10.0
"""Seconds for the other ranks to end once one has: then a line says which go on."""

NAMED = 3
"""Ranks that this line names with their processes."""

LISTED = 64
"""Hosts that are listed, a line each."""


class Worker(NamedTuple):
    """A worker that runs, `since` when on the loop's clock."""

    rank: int
    host: str
    pid: int
    since: float


class Workers:
    """The workers of a job that run, and the ranks that have ended well.

    Attributes:
        place: where they are counted, for the line; "" for the whole job.
    """

    def __init__(self, loop: Loop, log: Callable[[str], None]) -> None:
        """Have `say` told which ranks go on long after others have ended."""
        self._loop = loop
        self._log = log
        self.place = ""
        self._running: dict[int, Worker] = {}
        self._ended: set[int] = set()
        self._timer: Timer | None = None
        self._closed = False

    def started(self, node: RunNode, told: Started) -> None:
        """Take in a node's word on its workers; it has none to say on those of others."""
        theirs = {worker.rank for worker in node.node.workers()}
        now = self._loop.clock()
        for rank, pid in zip(told.ranks, told.pids, strict=False):
            if rank in theirs:
                self._running[rank] = Worker(rank, node.name, pid, now)
                self._ended.discard(rank)

    def ended(self, told: Exit) -> None:
        """Take in the end of a worker."""
        known = self._running.pop(told.rank, None)
        if known is None or told.code or told.signalled:
            return
        self._ended.add(told.rank)
        if self._timer is None:
            self._timer = self._loop.call_later(PATIENCE, self._look)

    def lost(self, node: RunNode) -> list[int]:
        """Know no more of a node's workers; return the processes of those that ran."""
        theirs = [one for one in self._running.values() if one.host == node.name]
        for one in theirs:
            del self._running[one.rank]
        return [one.pid for one in theirs]

    def begin_again(self) -> None:
        """Forget who has ended: there is another round."""
        self._ended.clear()

    def close(self) -> None:
        """Say no more by itself: all are told to stop."""
        self._closed = True

    def table(self) -> str:
        """Return who runs where, for how long, in a line for each host."""
        hosts: dict[str, list[Worker]] = {}
        for worker in sorted(self._running.values()):
            hosts.setdefault(worker.host, []).append(worker)
        running = len(self._running)
        lines = [f"running: {running} of {running + len(self._ended)} ranks{self.place}"]
        lines += [f"  {self._line(host, some)}" for host, some in list(hosts.items())[:LISTED]]
        rest = len(hosts) - LISTED
        return "\n".join([*lines, *([f"  and {rest} more hosts"] if rest > 0 else [])])

    def _line(self, host: str, some: Sequence[Worker]) -> str:
        ranks, pids = show_slots([one.rank for one in some]), show_slots([one.pid for one in some])
        many = "s" if len(some) > 1 else ""
        up = duration(self._loop.clock() - min(one.since for one in some))
        return f"{host}: rank{many} {ranks}, pid{many} {pids}, up for {up}"

    def _look(self) -> None:
        """Say once for all that have ended by now who goes on without them."""
        self._timer = None
        if self._closed or not self._running or not self._ended:
            return
        ended, left = len(self._ended), sorted(self._running.values())
        some = "; ".join(f"rank {one.rank} on {one.host}, pid {one.pid}" for one in left[:NAMED])
        rest = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
        self._log(
            f"{ended} of {ended + len(left)} ranks{self.place} have ended;"
            f" still running: {some}{rest}"
        )


def may_run_on(host: str, launchers: Sequence[int], workers: Sequence[int], seconds: float) -> str:
    """Return what may be left on a node whose end was not seen, and how it ends.

    Args:
        host: its name.
        launchers: its guard and its node launcher, where they are known.
        workers: the processes of its workers.
        seconds: for the node to see that its line is gone, and to end its workers.
    """
    many = "s" if len(workers) > 1 else ""
    text = f"may still run on {host}: pid{many} {show_slots(workers)}"
    if len(launchers) != 2 or min(launchers) <= 1:
        return text
    guard, launcher = launchers
    return (
        f"{text}; its node launcher and guard end that within {seconds:.0f} s, unless both were"
        f" stopped: then run there: kill -KILL {launcher}; kill -CONT {guard}"
    )
