"""All workers of one node: their output, their exits, and the ladder by which they are stopped.

The ladder: the signal to every worker at once, one grace for all of them in parallel, SIGKILL,
and a sweep of whatever they leave behind, until this process has no child left.
"""

from __future__ import annotations

import os
import signal

from ...common import loop as loops
from ...common.values import NamedTuple
from .. import descendants, processes
from .output_pipes import Pump
from .spawn import Process, Spec, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from .logs import RankLog

ORPHAN_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL for processes whose worker has ended."""

TOLD = 4
"""Failed workers of which the last output is told."""

DRAIN = 1.0
"""Seconds to wait for the end of a pipe that a process left in the background holds open."""


class Manners(NamedTuple):
    """How this job's workers are treated.

    Attributes:
        group: stop signals go to a worker's whole process group, not to its leader alone. The
            leader alone is the rule: its data loaders would die of a signal that only the
            training loop knows what to do with. A program that is no Python is often a shell
            that does not pass signals on.
        allow_background: what a job leaves running after a clean end may stay.
    """

    group: bool = False
    allow_background: bool = False


class Events(NamedTuple):
    """What the crew tells its owner; each is called from the loop."""

    output: Callable[[int, int, bytes], None]
    exited: Callable[[Process], None]
    note: Callable[[str], None]
    done: Callable[[list[int]], None]
    took: Callable[[int], None]


class LastWords(NamedTuple):
    """The last of workers that failed by themselves, by rank; see `messages.Done`."""

    tails: dict[str, list[str]]
    recorded: dict[str, list[str]]
    logs: dict[str, str]


class Crew:
    """The workers of this node, from the first fork to the last reaped orphan."""

    def __init__(
        self,
        loop: loops.Loop,
        manners: Manners,
        events: Events,
        others: Callable[[], Collection[int]] = tuple,
        hire: Callable[[Spec], Process] = spawn,
    ) -> None:
        """Be ready to start with `hire`; `others` are children that are none of its business."""
        self._others = others
        self._hire = hire
        self._loop = loop
        self._manners = manners
        self._events = events
        self.processes: list[Process] = []
        self.pumps: dict[tuple[int, int], Pump] = {}
        self._logs: dict[int, RankLog] = {}
        self._credit = 0
        self._stop_signal: int | None = None
        self._kill_timer: loops.Timer | None = None
        self._grace_ends = 0.0
        self._swept = self._killing = self._finished = False
        self._drain_timer: loops.Timer | None = None
        self._foreign: set[int] = set()
        self._killed: set[int] = set()
        self._input = bytearray()
        self._input_ended = False

    # -- starting ---------------------------------------------------------------------------

    def start(self, specs: Sequence[Spec], logs: dict[int, RankLog], credit: int) -> None:
        """Start every worker; `credit` bytes of output may be passed on before more is granted.

        Raises:
            SpawnFailed: one could not be started; those before it are running.
        """
        self._credit = credit
        self._logs = logs
        for spec in specs:
            process = self._hire(spec)
            self.processes.append(process)
            for stream, fd in ((1, process.stdout), (2, process.stderr)):
                self.pumps[spec.rank, stream] = Pump(fd, logs.get(spec.rank), stream)
                self._watch_pump(spec.rank, stream)
            if not spec.keep_stdin:
                os.close(process.stdin)
                process.stdin = -1

    def _watch_pump(self, rank: int, stream: int) -> None:
        fd = self.pumps[rank, stream].fd
        self._loop.watch(fd, loops.READ, lambda: self._pump(rank, stream))

    # -- output -----------------------------------------------------------------------------

    @property
    def credit(self) -> int:
        """How many bytes of output may still be passed on."""
        return self._credit

    def grant(self, size: int) -> None:
        """Allow `size` more bytes of output."""
        stalled = self._credit <= 0
        self._credit += size
        if stalled and self._credit > 0:
            for (rank, stream), pump in self.pumps.items():
                if pump.fd >= 0:
                    self._watch_pump(rank, stream)
            self._settle()

    def _pump(self, rank: int, stream: int) -> None:
        pump = self.pumps[rank, stream]
        data = pump.read()
        if data is None:
            return
        if not data:
            self._loop.unwatch(pump.fd)
            pump.close()
            self._settle()
            return
        self._events.output(rank, stream, data)
        self._credit -= len(data)
        if self._credit <= 0:
            for other in self.pumps.values():
                self._loop.unwatch(other.fd)

    # -- input ------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Pass bytes to the one worker that keeps its standard input; b"" is their end."""
        self._input += data
        self._input_ended = not data
        self._write_input()

    def _write_input(self) -> None:
        keeper = next((p for p in self.processes if p.stdin >= 0), None)
        if keeper is None:
            return
        try:
            count = os.write(keeper.stdin, self._input) if self._input else 0
        except BlockingIOError:
            count = 0
        except BrokenPipeError:
            count, self._input_ended = len(self._input), True
        del self._input[:count]
        self._events.took(count)
        if self._input:
            self._loop.watch(keeper.stdin, loops.WRITE, self._write_input)
            return
        self._loop.unwatch(keeper.stdin)
        if self._input_ended:
            os.close(keeper.stdin)
            keeper.stdin = -1

    # -- exits ------------------------------------------------------------------------------

    def reap(self) -> None:
        """Take in every child that has ended: workers, and orphans that became ours."""
        by_pid = {p.pid: p for p in self.processes if p.status is None}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._killed.discard(pid)
            if pid in by_pid:
                by_pid[pid].status = status
                self._events.exited(by_pid[pid])
        if self._killing:
            self._kill_children()
        self._settle()

    def last_words(self) -> LastWords:
        """Return the last that is known of workers that failed by themselves, by rank."""
        from . import error_file as recorded

        failed = [p for p in self.processes if p.status and not p.signalled][:TOLD]
        variable = recorded.VARIABLE.encode()
        return LastWords(
            {str(p.spec.rank): self._tails(p.spec.rank) for p in failed},
            {str(p.spec.rank): recorded.read(p.spec.env.get(variable, b"")) for p in failed},
            {str(p.spec.rank): self._logs[p.spec.rank].errors for p in failed if self._logs},
        )

    def _tails(self, rank: int) -> list[str]:
        return [self.pumps[rank, stream].tail.decode("utf-8", "replace") for stream in (1, 2)]

    def running(self) -> list[Process]:
        """Return the workers that have not ended."""
        return [p for p in self.processes if p.status is None]

    # -- stopping ---------------------------------------------------------------------------

    def signal_all(self, number: int) -> None:
        """Pass a signal to every worker once; it is theirs to make something of."""
        for process in self.running():
            processes.send(process.pid, number)

    def stop(self, number: int, grace: float, *, told: bool = False) -> None:
        """Signal every worker now, kill what is left `grace` seconds later.

        Called again it signals again when the signal is another one; the earlier deadline stays
        unless the new one comes sooner. With `told`, somebody else has sent the signal.
        """
        if number != self._stop_signal:
            self._stop_signal = number
            for process in self.running():
                process.signalled = True
                if told:
                    continue
                self._send(process.pid, number, group=self._manners.group)
                self._send(process.pid, signal.SIGCONT, group=self._manners.group)
        ends = self._loop.clock() + grace
        if self._kill_timer is None or ends < self._grace_ends:
            self._kill_at(ends)
        self._settle()

    def _kill_at(self, when: float) -> None:
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self._grace_ends = when
        self._kill_timer = self._loop.after(max(0.0, when - self._loop.clock()), self._kill)

    def _kill(self) -> None:
        if self._killing:
            return
        self._killing = True
        for process in self.running():
            process.signalled = True
        self._kill_children()
        self._loop.after(descendants.GIVE_UP, lambda: self._finish(self._children()))

    def _kill_children(self) -> None:
        children = set(self._children()) - self._foreign
        if children - self._killed:
            self._killed = descendants.end(self._others()) | children
        for pid in children:
            self._send(pid, signal.SIGKILL)

    def _children(self) -> list[int]:
        others = self._others()
        return [pid for pid in processes.children() if pid not in others]

    def _send(self, pid: int, number: int, *, group: bool = False) -> None:
        if not processes.send(pid, number, group=group):
            self._foreign.add(pid)

    # -- the end ----------------------------------------------------------------------------

    def _settle(self) -> None:
        """See whether the crew has come to its end: no worker, no orphan, no byte unread."""
        if self._finished or any(p.pid not in self._foreign for p in self.running()):
            return
        left = [pid for pid in self._children() if pid not in self._foreign]
        if left and not self.may_stay():
            self._sweep(left)
        elif any(pump.fd >= 0 for pump in self.pumps.values()):
            # A job that is stopped does not wait for a reader that has stalled.
            waits_for_reader = self._credit <= 0 and self._stop_signal is None
            if self._drain_timer is None and not waits_for_reader:
                self._drain_timer = self._loop.after(
                    DRAIN, lambda: self._finish(sorted(self._foreign))
                )
        else:
            self._finish(self._beyond())

    def _beyond(self) -> list[int]:
        """Return the processes that have become another user's, and cannot be ended from here."""
        return sorted(self._foreign & set(processes.children()))

    def may_stay(self) -> bool:
        """Tell whether what the job has left running is to be left alone."""
        clean = self._stop_signal is None and all(p.status == 0 for p in self.processes)
        return self._manners.allow_background and clean

    def _sweep(self, left: list[int]) -> None:
        """End what the workers left behind: SIGTERM, a moment, SIGKILL."""
        if self._swept or self._killing:
            return
        self._swept = True
        if self._stop_signal is None and all(p.status == 0 for p in self.processes):
            self._events.note(f"left running by the job, stopped: {_names(left)}")
        for pid in left:
            self._send(pid, signal.SIGTERM)
        soon = self._loop.clock() + ORPHAN_GRACE
        if not (self._manners.group and self._kill_timer is not None):
            self._kill_at(soon)

    def _finish(self, left: list[int]) -> None:
        if self._finished:
            return
        self._finished = True
        if self._kill_timer is not None:
            self._kill_timer.cancel()  # by then the next round's workers may be there
        for pump in self.pumps.values():
            self._loop.unwatch(pump.fd)
            pump.finish()
        self._events.done(left)


def _names(pids: list[int]) -> str:
    return ", ".join(f"{_command(pid)} (pid {pid})" for pid in pids[:5])


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode("utf-8", "replace").split("\0")
    except OSError:
        return "?"
    return " ".join(words).strip()[:60] or "?"
