"""The running workers of a run: for SIGQUIT, and for a warning about ranks that outlive others."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...resources.ranges import show_slots
from ..report.report import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Timer, Timers
    from ...control.messages import WorkerExit, WorkersStarted
    from .run_node import RunNode

PATIENCE = 10.0
"""Seconds after the end of the first rank until a warning names the ranks that still run."""

NAMED = 3
"""Ranks that this warning names with their processes."""

UNKNOWN = "workers, or processes that they started"

LISTED = 64
"""Greatest number of hosts in the table, one line each."""


class RunningWorker(NamedTuple):
    """A running worker; `since` is its start on the loop's clock."""

    rank: int
    host: str
    pid: int
    since: float


class Workers:
    """The running workers of a job, and the ranks that exited with 0.

    Attributes:
        place: words after the number of ranks in messages, such as " here"; "" for the whole job.
    """

    def __init__(
        self, clock: Callable[[], float], timers: Timers, log: Callable[[str], None]
    ) -> None:
        """Start without workers.

        Args:
            clock: returns the time in seconds.
            timers: schedules the warning.
            log: prints the warning.
        """
        self._clock, self._timers, self._log = clock, timers, log
        self.place = ""
        self._running: dict[int, RunningWorker] = {}
        self._ended: set[int] = set()
        self._began: set[str] = set()
        self._timer: Timer | None = None
        self._closed = False

    def started(self, node: RunNode, message: WorkersStarted) -> None:
        """Record the workers of a node; ignore ranks that are not on this node."""
        theirs = node.node.ranks
        now = self._clock()
        self._began.add(node.name)
        for rank, pid in zip(message.ranks, message.pids, strict=False):
            if rank in theirs:
                self._running[rank] = RunningWorker(rank, node.name, pid, now)
                self._ended.discard(rank)

    def began(self, node: RunNode) -> bool:
        """Return whether a node has started its workers."""
        return node.name in self._began

    def ended(self, message: WorkerExit) -> None:
        """Record the end of a worker."""
        known = self._running.pop(message.rank, None)
        if known is None or message.code or message.signalled:
            return
        self._ended.add(message.rank)
        if self._timer is None:
            self._timer = self._timers.call_later(PATIENCE, self._warn_of_left)

    @property
    def running(self) -> list[RunningWorker]:
        """The running workers, by rank."""
        return sorted(self._running.values())

    def runs(self, node: RunNode, rank: int) -> bool:
        """Return whether a rank runs on a node now."""
        known = self._running.get(rank)
        return known is not None and known.host == node.name

    def lost(self, node: RunNode) -> list[int]:
        """Remove the workers of a lost node; return the pids of those that were running."""
        theirs = [one for one in self._running.values() if one.host == node.name]
        for one in theirs:
            del self._running[one.rank]
        return [one.pid for one in theirs]

    def start_round(self) -> None:
        """Forget which ranks have ended: another round begins."""
        self._ended.clear()

    def close(self) -> None:
        """Print no more warnings: all workers are being stopped."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def table(self) -> str:
        """Return a table of the running ranks: one line per host with pids and run time."""
        hosts: dict[str, list[RunningWorker]] = {}
        for worker in self.running:
            hosts.setdefault(worker.host, []).append(worker)
        running = len(self._running)
        lines = [f"running: {running} of {running + len(self._ended)} ranks{self.place}"]
        lines += [f"  {self._line(host, some)}" for host, some in list(hosts.items())[:LISTED]]
        rest = len(hosts) - LISTED
        return "\n".join([*lines, *([f"  and {rest} more hosts"] if rest > 0 else [])])

    def _line(self, host: str, some: Sequence[RunningWorker]) -> str:
        ranks, pids = show_slots([one.rank for one in some]), show_slots([one.pid for one in some])
        plural = "s" if len(some) > 1 else ""
        up = duration(self._clock() - min(one.since for one in some))
        return f"{host}: rank{plural} {ranks}, pid{plural} {pids}, up for {up}"

    def _warn_of_left(self) -> None:
        """Warn once about the ranks that still run after others have ended."""
        self._timer = None
        if self._closed or not self._running or not self._ended:
            return
        ended, left = len(self._ended), self.running
        some = "; ".join(f"rank {one.rank} on {one.host}, pid {one.pid}" for one in left[:NAMED])
        rest = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
        self._log(
            f"{ended} of {ended + len(left)} ranks{self.place} have ended;"
            f" still running: {some}{rest}"
        )


def may_run_on(host: str, launchers: Sequence[int], workers: Sequence[int], seconds: float) -> str:
    """Return a message about a lost node whose end was not observed.

    Args:
        host: the host's name.
        launchers: the pids of the guard and the node launcher, if known.
        workers: the known pids of the workers that have not been seen to end.
        seconds: time in which the node notices the lost connection and ends its workers, provided
            that the guard or the node launcher is still able to act.
    """
    plural = "s" if len(workers) > 1 else ""
    known = f"pid{plural} {show_slots(workers)}"
    text = f"may still be running on {host}: {known if workers else UNKNOWN}"
    if len(launchers) != 2 or min(launchers) <= 1:
        return text
    guard, launcher = launchers
    return (
        f"{text}; the node kills them within {seconds:.0f} s (guard {guard}, launcher {launcher});"
        f" if both were stopped or killed, they may remain: `dsrun-job kill JOB --host {host}`"
        " kills them"
    )
