"""The workers of one node: their output, their exits, and their stop."""

from __future__ import annotations

import signal

from ...common import loop as loops
from ...common import system
from ...common.event_queue import EventQueue
from ...common.records import NamedTuple
from ..machine import descendants, processes
from . import self_ending
from .group_state import GroupPhase, GroupSnapshot, GroupState
from .output_pipes import OutputPipe
from .spawn import Process, WorkerSpec, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Concatenate, ParamSpec, Protocol

    from .group_state import StopPolicy
    from .log_writer import LogWriter

    P = ParamSpec("P")

    class GroupListener(Protocol):
        """Receives the events of a group of workers, always from the loop."""

        def worker_wrote(self, rank: int, stream: int, data: bytes) -> None:
            """Handle output of a worker on stream 1, 2 or 3 (its report)."""
            ...

        def input_taken(self, size: int) -> None:
            """Count bytes of standard input that a worker has read or dropped."""
            ...

        def worker_exited(self, process: Process) -> None:
            """Handle the end of a worker; its process has the status."""
            ...

        def orphans_stopped(self, names: str) -> None:
            """Handle a stop of processes that workers left behind, given their names."""
            ...

        def group_ended(self, left: list[int]) -> None:
            """Handle the end of the group; `left` are pids that cannot be ended from here."""
            ...


REPORTED = 4
"""Maximum number of failed workers whose last output is reported."""

TRACEBACK = b"Traceback (most recent call last)"
"""Text in the standard error of a worker that raised an exception, and may hang at its end."""


class FailureDetails(NamedTuple):
    """Details about workers that failed, or had raised an exception; see `messages.Done`."""

    tails: dict[str, list[str]]
    recorded: dict[str, list[str]]
    logs: dict[str, str]
    evidence: dict[str, str]


class WorkerGroup:
    """The workers of this node, from the first fork to the last reaped orphan.

    Attributes:
        unended: by rank, the last output of workers that had printed a traceback, but still ran
            when they were told to stop; of the first few.
    """

    def __init__(
        self,
        loop: loops.Loop,
        policy: StopPolicy,
        listener: GroupListener,
        excluded: Callable[[], Collection[int]] = tuple,
        spawn: Callable[[WorkerSpec], Process] = spawn,
        credit: int = 0,
        queue: EventQueue | None = None,
    ) -> None:
        """Create a group without workers.

        Args:
            loop: the loop that runs the group.
            policy: the stop policy.
            listener: receives the events of the group.
            excluded: returns the children of this process that do not belong to the group.
            spawn: starts a worker.
            credit: the number of bytes of output that may be sent before more is granted.
            queue: the event queue of this node; None for a new one.
        """
        self._excluded = excluded
        self._spawn = spawn
        self._loop = loop
        self._listener = listener
        self._queue = queue or EventQueue()
        self.processes: list[Process] = []
        self.pumps: dict[tuple[int, int], OutputPipe] = {}
        self._state = GroupState(policy, self.processes, self)
        self._logs: LogWriter | None = None
        self._credit = credit
        self._alarm = loops.DueTimer(loop, loop.clock, self._changed)
        self._input = bytearray()
        self._input_ended = False
        self.unended: dict[str, list[str]] = {}

    @property
    def over(self) -> bool:
        """True if the group and its logs have ended."""
        return self._state.phase is GroupPhase.ENDED and (self._logs is None or self._logs.over)

    # -- starting ---------------------------------------------------------------------------

    def start(
        self,
        specs: Sequence[WorkerSpec],
        logs: LogWriter | None,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        """Start all workers; `between` is called before each, as a start of many takes long.

        Raises:
            SpawnFailed: a worker could not be started; those before it are running.
        """
        self._logs = logs
        if logs is not None:
            logs.serve(self._loop, self._resume)
        for spec in specs:
            between()
            process = self._spawn(spec)
            self.processes.append(process)
            for stream, fd in ((1, process.stdout), (2, process.stderr), (3, spec.report)):
                if fd >= 0:
                    log = logs.sink(spec.rank, stream) if logs is not None else None
                    self.pumps[spec.rank, stream] = OutputPipe(fd, log)
                    self._watch_pump(spec.rank, stream)
            if not spec.keep_stdin:
                system.close(process.stdin)
                process.stdin = -1

    def _watch_pump(self, rank: int, stream: int) -> None:
        fd = self.pumps[rank, stream].fd
        self._loop.add_reader(fd, lambda: self._pump(rank, stream))

    # -- output -----------------------------------------------------------------------------

    @property
    def credit(self) -> int:
        """The number of bytes of output that may still be sent."""
        return self._credit

    def grant(self, size: int) -> None:
        """Allow `size` more bytes of output."""
        self._credit += size
        self._resume()

    @property
    def _stalled(self) -> bool:
        """True while the output of the workers is not read."""
        return self._credit <= 0 or (self._logs is not None and self._logs.full)

    def _resume(self) -> None:
        """Resume reading the output of the workers if it can be sent."""
        if self._stalled or self._state.phase is GroupPhase.ENDED:
            return
        for (rank, stream), pump in self.pumps.items():
            if pump.fd >= 0 and not self._loop.has_reader(pump.fd):
                self._watch_pump(rank, stream)
        self._changed()

    def _pump(self, rank: int, stream: int) -> None:
        pump = self.pumps[rank, stream]
        data = pump.read()
        if data is None:
            return
        if not data:
            self._loop.remove(pump.fd)
            pump.close()
            self._changed()
            return
        self._listener.worker_wrote(rank, stream, data)
        self._credit -= len(data)
        if self._stalled:
            for other in self.pumps.values():
                self._loop.remove(other.fd)

    def printed(self, rank: int) -> int:
        """Return the number of bytes read of a worker's output."""
        return sum(pump.count for (one, _stream), pump in self.pumps.items() if one == rank)

    # -- input ------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Pass bytes to the worker that keeps its standard input; b"" marks the end."""
        self._input += data
        self._input_ended = not data
        self._write_input()

    def _write_input(self) -> None:
        keeper = next((p for p in self.processes if p.stdin >= 0), None)
        if keeper is None:
            return
        try:
            count = system.write(keeper.stdin, self._input) if self._input else 0
        except BlockingIOError:
            count = 0
        except BrokenPipeError:
            count, self._input_ended = len(self._input), True
        del self._input[:count]
        self._listener.input_taken(count)
        if self._input:
            self._loop.add_writer(keeper.stdin, self._write_input)
            return
        self._loop.remove(keeper.stdin)
        if self._input_ended:
            system.close(keeper.stdin)
            keeper.stdin = -1

    # -- exits ------------------------------------------------------------------------------

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children: workers, and orphans that this process adopted.

        Args:
            reaped: the wait status of each reaped child, by pid.
        """
        by_pid = {p.pid: p for p in self.running()}
        ended = [by_pid[pid] for pid in reaped if pid in by_pid]
        for process in ended:  # first for all: pids may be reused from now on
            process.status = reaped[process.pid]
        for process in ended:
            self._listener.worker_exited(process)
        self._handle(self._state.were_reaped, reaped)

    def failed(self) -> list[Process]:
        """Return the first workers that failed by themselves."""
        return [p for p in self.processes if p.status and not p.signalled][:REPORTED]

    def failures(self) -> FailureDetails:
        """Return the details about failed workers that need no file, by rank."""
        ranks = [one.spec.rank for one in self.failed()]
        return FailureDetails(
            {**self.unended, **{str(rank): self._tails(rank) for rank in ranks}},
            {str(rank): ["", ""] for rank in ranks},
            {str(rank): self._logs.errors(rank) for rank in ranks if self._logs},
            {},
        )

    def _raised(self) -> dict[str, list[str]]:
        """Return the last output of workers that still run after a traceback, by rank."""
        pumps = ((one.spec.rank, self.pumps.get((one.spec.rank, 2))) for one in self.running())
        ranks = [rank for rank, pump in pumps if pump is not None and TRACEBACK in pump.tail]
        return {str(rank): self._tails(rank) for rank in ranks[:REPORTED]}

    def _tails(self, rank: int) -> list[str]:
        return [self.pumps[rank, stream].tail.decode("utf-8", "replace") for stream in (1, 2)]

    def running(self) -> list[Process]:
        """Return the workers that have not ended."""
        return self._state.running()

    def may_stay(self) -> bool:
        """Return whether processes that the job leaves running may stay."""
        return self._state.may_stay()

    # -- stopping ---------------------------------------------------------------------------

    def signal_all(self, number: int) -> None:
        """Pass a signal to every worker once; each worker decides on its effect."""
        for process in self.running():
            processes.send(process.pid, number)

    def stop(self, number: int, grace: float, *, delivered: bool = False) -> None:
        """Signal every worker now, and kill what is left `grace` seconds later.

        A later call with another signal sends that signal; the deadline can only become earlier.
        With `delivered`, the workers have already received the signal.
        """
        self.unended = self.unended or self._raised()
        self._handle(self._state.stop, number, delivered=delivered)
        self._handle(self._state.kill_after, grace)

    def _handle(
        self,
        happened: Callable[Concatenate[GroupSnapshot, P], None],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Report an event to the state, after the events in progress."""

        def tell() -> None:
            happened(self._snapshot(), *args, **kwargs)
            self._alarm.set(self._state.due)

        self._queue.put(tell)

    def _changed(self) -> None:
        self._handle(self._state.changed)

    def _snapshot(self) -> GroupSnapshot:
        """Return the facts for the next decision; children are read from /proc only if needed."""
        now, state = self._loop.clock(), self._state
        children = self._children() if state.looks(now) else ()
        ends_alone = {*filter(self_ending.is_helper, children)} if state.sweeps else ()
        writes = any(pump.fd >= 0 for pump in self.pumps.values())
        return GroupSnapshot(now, children, ends_alone, writes, self._stalled)

    def _children(self) -> list[int]:
        excluded = self._excluded()
        return [pid for pid in processes.children() if pid not in excluded]

    # -- decisions of its state (`GroupActions`) ----------------------------------------------

    def signal(self, pid: int, number: int, *, group: bool = False) -> None:
        """Signal a child, or its group."""
        if not processes.send(pid, number, group=group):
            self._handle(self._state.is_foreign, pid)
            self._changed()

    def kill(self, pids: Collection[int], *, below: bool) -> None:
        """Kill these children; with `below`, first all processes below this one."""
        if below:
            self._handle(self._state.were_killed, descendants.kill_all(self._excluded()))
        for pid in pids:
            self.signal(pid, signal.SIGKILL)

    def tell_left(self, pids: Sequence[int]) -> None:
        """Report the processes that a successful job leaves running."""
        self._listener.orphans_stopped(self_ending.names(pids))

    def finish(self, left: Sequence[int]) -> None:
        """Close all streams; the group has ended once its logs are written."""
        self._close_streams()
        if self._logs is None:
            self._listener.group_ended([*left])
        else:
            self._logs.close(lambda: self._listener.group_ended([*left]))

    def _close_streams(self) -> None:
        for pump in self.pumps.values():
            self._loop.remove(pump.fd)
            pump.finish()
        for process in self.processes:
            if process.stdin >= 0:
                self._loop.remove(process.stdin)
                system.close(process.stdin)
                process.stdin = -1
