"""The state of one rank at one moment: its processes, stacks and collectives. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .messages import Collective, NetworkUse, ProcessState, ThreadStack


class RankView(NamedTuple):
    """A rank as seen from the runner.

    Attributes:
        host: the host's name.
        processes: the worker, and the processes it has started; () if its node has not answered.
        threads: the threads of these processes whose stacks could be read.
        collectives: the latest few of each process group, if torch has recorded them.
        idle: seconds for which it has been inactive, 0.0 if unknown.
        problem: the reason for missing information, in words; else "".
        saved: the folder on its node where its stacks were written to a file, or "".
        network: the network use of its processes, as far as known.
        still: seconds without reading, writing or printing; it may have computed.
    """

    rank: int
    host: str
    pid: int
    processes: tuple[ProcessState, ...] = ()
    threads: tuple[ThreadStack, ...] = ()
    collectives: tuple[Collective, ...] = ()
    idle: float = 0.0
    problem: str = ""
    saved: str = ""
    network: tuple[NetworkUse, ...] = ()
    still: float = 0.0

    @property
    def worker(self) -> ProcessState | None:
        """The worker's process itself, None without information."""
        return next((one for one in self.processes if one.pid == self.pid), None)

    @property
    def children(self) -> tuple[ProcessState, ...]:
        """The processes that the worker has started, and those below them."""
        return tuple(one for one in self.processes if one.pid != self.pid)

    def threads_of(self, pid: int) -> list[ThreadStack]:
        """Return the threads of one process, the main thread first."""
        theirs = [one for one in self.threads if one.pid == pid]
        return sorted(theirs, key=lambda one: not one.main)
