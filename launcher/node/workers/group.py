"""All workers of one node: their output, their exits, and how they are stopped.

They are stopped in steps: the signal to all workers at once, one grace period for all, SIGKILL, and
then the end of whatever they leave behind, until this process has no child left.
"""

from __future__ import annotations

import signal
from enum import Enum

from ...common import loop as loops
from ...common import system
from ...common.values import NamedTuple
from .. import descendants, processes
from . import helpers
from .events import Ended, Exited, InputTaken, OrphansStopped, Output
from .failures import FailureDetails
from .output_pipes import OutputPipe
from .spawn import Process, WorkerSpec, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from .events import Emit
    from .log_writer import LogWriter

ORPHAN_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL for processes whose worker has ended."""

REPORTED = 4
"""Failed workers whose last output is reported."""

DRAIN = 1.0
"""Seconds to wait for the end of a pipe that a background process holds open."""


class StopPolicy(NamedTuple):
    """How this job's workers are stopped.

    Attributes:
        group: stop signals go to a worker's whole process group, not only to its leader. By default
            they go to the leader: its data loaders would die of a signal that only the training
            loop can handle. A program that is not Python often is a shell that does not pass
            signals on.
        allow_background: what a job leaves running after it has succeeded may stay.
    """

    group: bool = False
    allow_background: bool = False


class Phase(Enum):
    """The phase of the group; phases only go forward.

    Attributes:
        RUNNING: workers run, or have been told to stop.
        SWEEPING: all have ended, and the processes that they left have got SIGTERM.
        KILLING: everything that is left gets SIGKILL.
        ENDED: nothing is left, or what is left cannot be ended; the logs may still be written.
    """

    RUNNING = 1
    SWEEPING = 2
    KILLING = 3
    ENDED = 4


class WorkerGroup:
    """The workers of this node, from the first fork to the last reaped orphan."""

    def __init__(
        self,
        loop: loops.Loop,
        policy: StopPolicy,
        emit: Emit,
        excluded: Callable[[], Collection[int]] = tuple,
        spawn: Callable[[WorkerSpec], Process] = spawn,
        credit: int = 0,
    ) -> None:
        """Create a group without workers; `start` starts them.

        Args:
            loop: the loop on which the group waits.
            policy: how the workers are stopped.
            emit: called with every event, always from the loop.
            excluded: returns the children of this process that do not belong to the group.
            spawn: starts a worker.
            credit: how many bytes of output may be passed on before more is granted.
        """
        self._excluded = excluded
        self._spawn = spawn
        self._loop = loop
        self._policy = policy
        self._emit = emit
        self._phase = Phase.RUNNING
        self.processes: list[Process] = []
        self.pumps: dict[tuple[int, int], OutputPipe] = {}
        self._logs: LogWriter | None = None
        self._credit = credit
        self._stop_signal: int | None = None
        self._kill_timer: loops.Timer | None = None
        self._give_up_timer: loops.Timer | None = None
        self._drain_timer: loops.Timer | None = None
        self._grace_ends = 0.0
        self._foreign: set[int] = set()
        self._killed: set[int] = set()
        self._input = bytearray()
        self._input_ended = False
        self._told = False

    @property
    def over(self) -> bool:
        """Whether it has ended, with its logs."""
        return self._phase is Phase.ENDED and (self._logs is None or self._logs.over)

    # -- starting ---------------------------------------------------------------------------

    def start(self, specs: Sequence[WorkerSpec], logs: LogWriter | None) -> None:
        """Start every worker.

        Raises:
            SpawnFailed: one could not be started; those before it are running.
        """
        self._logs = logs
        if logs is not None:
            logs.serve(self._loop, self._resume)
        for spec in specs:
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
        """How many bytes of output may still be passed on."""
        return self._credit

    def grant(self, size: int) -> None:
        """Allow `size` more bytes of output."""
        self._credit += size
        self._resume()

    @property
    def _stalled(self) -> bool:
        """Whether what the workers print is not read for now."""
        return self._credit <= 0 or (self._logs is not None and self._logs.full)

    def _resume(self) -> None:
        """Read again what the workers print, if it can be passed on."""
        if self._stalled or self._phase is Phase.ENDED:
            return
        for (rank, stream), pump in self.pumps.items():
            if pump.fd >= 0 and not self._loop.has_reader(pump.fd):
                self._watch_pump(rank, stream)
        self._settle()

    def _pump(self, rank: int, stream: int) -> None:
        pump = self.pumps[rank, stream]
        data = pump.read()
        if data is None:
            return
        if not data:
            self._loop.remove(pump.fd)
            pump.close()
            self._settle()
            return
        self._emit(Output(rank, stream, data))
        self._credit -= len(data)
        if self._stalled:
            for other in self.pumps.values():
                self._loop.remove(other.fd)

    def printed(self, rank: int) -> int:
        """Return how many bytes of a worker's output have been read."""
        return sum(pump.count for (one, _stream), pump in self.pumps.items() if one == rank)

    # -- input ------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Pass bytes to the one worker that keeps its standard input; b"" is the end."""
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
        self._emit(InputTaken(count))
        if self._input:
            self._loop.add_writer(keeper.stdin, self._write_input)
            return
        self._loop.remove(keeper.stdin)
        if self._input_ended:
            system.close(keeper.stdin)
            keeper.stdin = -1

    # -- exits ------------------------------------------------------------------------------

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children: workers, and orphans that became ours.

        Args:
            reaped: the wait status of every child that this process has reaped, by pid.
        """
        by_pid = {p.pid: p for p in self.running()}
        self._killed.difference_update(reaped)
        ended = [by_pid[pid] for pid in reaped if pid in by_pid]
        for process in ended:  # all of them first: these pids may be reused from now on
            process.status = reaped[process.pid]
        for process in ended:
            self._emit(Exited(process))
        if self._phase is Phase.KILLING:
            self._kill_children()
        self._settle()

    def failed(self) -> list[Process]:
        """Return the first workers that failed by themselves."""
        return [p for p in self.processes if p.status and not p.signalled][:REPORTED]

    def failures(self) -> FailureDetails:
        """Return what is known about these without reading any file, by rank."""
        ranks = [one.spec.rank for one in self.failed()]
        return FailureDetails(
            {str(rank): self._tails(rank) for rank in ranks},
            {str(rank): ["", ""] for rank in ranks},
            {str(rank): self._logs.errors(rank) for rank in ranks if self._logs},
            {},
        )

    def _tails(self, rank: int) -> list[str]:
        return [self.pumps[rank, stream].tail.decode("utf-8", "replace") for stream in (1, 2)]

    def running(self) -> list[Process]:
        """Return the workers that have not ended."""
        return [p for p in self.processes if p.status is None]

    # -- stopping ---------------------------------------------------------------------------

    def signal_all(self, number: int) -> None:
        """Pass a signal to every worker once; the workers decide what to do with it."""
        for process in self.running():
            processes.send(process.pid, number)

    def stop(self, number: int, grace: float, *, delivered: bool = False) -> None:
        """Signal every worker now, and kill what is left `grace` seconds later.

        Another call signals again if the signal differs; the deadline changes only if the new one
        is earlier. With `delivered`, the workers have already got the signal.
        """
        if self._phase is Phase.ENDED:
            return
        if number != self._stop_signal:
            self._stop_signal = number
            for process in self.running():
                process.signalled = True
                if not delivered:
                    self._send(process.pid, number, group=self._policy.group)
                    self._send(process.pid, signal.SIGCONT, group=self._policy.group)
        ends = self._loop.clock() + grace
        if self._kill_timer is None or ends < self._grace_ends:
            self._kill_at(ends)
        self._settle()

    def _kill_at(self, when: float) -> None:
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self._grace_ends = when
        self._kill_timer = self._loop.call_later(max(0.0, when - self._loop.clock()), self._kill)

    def _kill(self) -> None:
        if self._phase not in {Phase.RUNNING, Phase.SWEEPING}:
            return
        if self._phase is Phase.SWEEPING:
            self._tell_orphans(self._children())
        self._phase = Phase.KILLING
        for process in self.running():
            process.signalled = True
        self._give_up_timer = self._loop.call_later(
            descendants.GIVE_UP, lambda: self._end(self._children())
        )
        self._kill_children()

    def _kill_children(self) -> None:
        children = set(self._children()) - self._foreign
        if children - self._killed:
            self._killed = descendants.end(self._excluded()) | children
        for pid in children:
            self._send(pid, signal.SIGKILL)

    def _children(self) -> list[int]:
        excluded = self._excluded()
        return [pid for pid in processes.children() if pid not in excluded]

    def _send(self, pid: int, number: int, *, group: bool = False) -> None:
        if not processes.send(pid, number, group=group):
            self._foreign.add(pid)

    # -- the end ----------------------------------------------------------------------------

    def _settle(self) -> None:
        """End the group if there is no worker, no orphan and no unread output."""
        if self._phase is Phase.ENDED or any(p.pid not in self._foreign for p in self.running()):
            return
        left = [pid for pid in self._children() if pid not in self._foreign]
        if left and not self.may_stay():
            self._sweep(left)
        elif any(pump.fd >= 0 for pump in self.pumps.values()):
            if self._drain_timer is None and not self._waits_for_reader():
                self._drain_timer = self._loop.call_later(DRAIN, self._stop_draining)
        else:
            self._end(self._unkillable())

    def _waits_for_reader(self) -> bool:
        """Return whether output is not read for now; that counts until the job is being stopped."""
        return self._stalled and self._stop_signal is None

    def _stop_draining(self) -> None:
        self._drain_timer = None
        if not self._waits_for_reader():
            self._end(sorted(self._foreign))

    def _unkillable(self) -> list[int]:
        """Return the processes that now belong to another user and cannot be ended from here."""
        return sorted(self._foreign & set(processes.children()))

    def may_stay(self) -> bool:
        """Return whether the processes that the job has left running may stay."""
        return self._policy.allow_background and self._succeeded()

    def _succeeded(self) -> bool:
        return self._stop_signal is None and all(p.status == 0 for p in self.processes)

    def _sweep(self, left: list[int]) -> None:
        """End what the workers left behind: SIGTERM, a short pause, SIGKILL."""
        if self._phase is not Phase.RUNNING:
            return
        self._phase = Phase.SWEEPING
        asked = [pid for pid in left if not helpers.is_helper(pid)]
        self._tell_orphans(asked)
        for pid in asked:
            self._send(pid, signal.SIGTERM)
        if not (self._policy.group and self._kill_timer is not None):
            self._kill_at(self._loop.clock() + (ORPHAN_GRACE if asked else helpers.MOMENT))

    def _tell_orphans(self, pids: Sequence[int]) -> None:
        """Tell once what a job that has succeeded leaves running."""
        if pids and self._succeeded() and not self._told:
            self._told = True
            self._emit(OrphansStopped(helpers.names(pids)))

    def _end(self, left: list[int]) -> None:
        if self._phase is Phase.ENDED:
            return
        self._phase = Phase.ENDED
        # By the time these are due, workers of another round may be running.
        for timer in (self._kill_timer, self._give_up_timer, self._drain_timer):
            if timer is not None:
                timer.cancel()
        self._close_streams()
        if self._logs is None:
            self._emit(Ended(left))
        else:
            self._logs.close(lambda: self._emit(Ended(left)))

    def _close_streams(self) -> None:
        for pump in self.pumps.values():
            self._loop.remove(pump.fd)
            pump.finish()
        for process in self.processes:
            if process.stdin >= 0:
                self._loop.remove(process.stdin)
                system.close(process.stdin)
                process.stdin = -1
