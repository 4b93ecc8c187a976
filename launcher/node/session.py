"""The node's half of one job, from the first frame to DONE."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import nullcontext

from ..common import loop as loops
from ..common.errors import LOST
from ..control import frames, messages
from ..control.link import Link
from . import facts, ports
from . import processes as kernel
from .guard import PASSED
from .signals import Arrivals
from .workers.group import Crew, Events, LastWords, Manners
from .workers.prepare import Outfit
from .workers.spawn import Process, SpawnFailed, Spec, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ..control.line import Line
    from .elastic.rounds import Agency
    from .elastic.warm_workers import Pool
    from .guard import Guard
    from .port_watch import PortWatch
    from .shards import Lines

START_TIMEOUT = 600.0
"""Seconds to wait for the runner's next word before the workers are started."""

REACH_TIMEOUT = 5.0
"""Seconds for the master's addresses to answer before the start."""

ENDS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals that end this node's part of the job when a scheduler sends them here."""


class Session:
    """One control line's life on a node."""

    def __init__(self, line: Line, loop: loops.Loop, guard: Guard, *, tells: bool) -> None:
        """Serve `line` on `loop`, under `guard`; with `tells`, end as the job does and say how."""
        self._loop = loop
        self._guard = guard
        self._tells = tells
        self._task: messages.Task | None = None
        self._outfit: Outfit | None = None
        self._crew: Crew | None = None
        self._agency: Agency | None = None
        self._lines: Lines | None = None
        self._port_watch: PortWatch | None = None
        self._pool: Pool | None = None
        self._suspended = False
        self._reason = ""
        self._oom_kills = 0
        self.code = 0
        self._over = False
        self._handlers = {
            frames.JOB: self._on_job,
            frames.PROBE: self._on_probe,
            frames.START: self._on_start,
            frames.STOP: self._on_stop,
            frames.SIGNAL: self._on_signal_frame,
            frames.CREDIT: self._on_credit,
            frames.INPUT: self._on_input,
            frames.LEASE: self._on_lease,
            frames.END: self._on_end_frame,
            frames.ANSWER: self._on_answer,
            frames.BEAT: lambda _body: None,
        }
        self._arrivals = Arrivals(loop, self._on_signal)
        self._link = Link(loop, line, self._handlers, self._lost)
        self._start_timer = loop.after(START_TIMEOUT, lambda: self._give_up("no word to start"))

    def run(self) -> int:
        """Serve the line until nothing of the job is left here.

        Returns:
            the exit code for this process.
        """
        self._loop.on_signals({*PASSED, signal.SIGCHLD}, self._on_own_signal)
        self._guard.watch(
            self._loop, lambda number: self._arrivals.came(number, "guard"), self._guard_died
        )
        self._loop.run()
        return self.code

    # -- the runner's silence ---------------------------------------------------------------

    def _give_up(self, reason: str) -> None:
        self._link.close()
        self._lost(reason)

    def _lost(self, reason: str) -> None:
        """Go on without the runner: stop the workers, keep nothing, leave."""
        if self._over or self._crew is None or self._task is None:
            if not self._over:
                self.code = LOST
            self._loop.stop()
            return
        self.code = LOST
        self._reason = f"the runner is gone: {reason}"
        self._crew.grant(1 << 62)
        if self._lines is not None:
            self._lines.close()
        self._stop_all(signal.SIGTERM, self._task.last_grace)

    def _beat(self) -> None:
        if not self._link.open or self._task is None:
            return
        lease = self._task.lease
        silent = 0.0 if self._suspended else self._loop.clock() - self._link.heard
        if silent >= lease:
            reason = f"heard nothing from the runner for {silent:.0f} s"
            self._note_loss(reason)  # if the network is only slow, the runner knows why
            self._give_up(reason)
            return
        self._send(frames.pack_beat(time.monotonic()))
        self._loop.after(min(lease / messages.BEATS, lease - silent), self._beat)

    def _send(self, frame: bytes) -> None:
        self._link.send(frame)

    # -- frames -----------------------------------------------------------------------------

    def _on_job(self, body: bytes) -> None:
        task = messages.unpack(messages.Task, body)
        if self._task is not None:
            raise frames.BadFrame("a second JOB")
        self._task = task
        self._outfit = Outfit(task, self._note)
        self._send(messages.pack(frames.HELLO, self._outfit.hello()))

    def _on_probe(self, body: bytes) -> None:
        asked = messages.unpack(messages.Probe, body)
        verdicts = ports.reach(asked.candidates, asked.port, REACH_TIMEOUT)
        self._send(messages.pack(frames.PROBED, messages.Probed(tuple(verdicts))))

    def _on_start(self, body: bytes) -> None:
        start = messages.unpack(messages.Start, body)
        if self._task is None or self._outfit is None:
            raise frames.BadFrame("START before JOB")
        if self._crew is not None or self._agency is not None:
            raise frames.BadFrame("a second START")
        self._start_timer.cancel()
        self._guard.be_missed(self._loop, self._task.stillness)
        self._oom_kills = facts.out_of_memory_kills()
        self._outfit.let_store_in()
        # The runner starts the other nodes at this: none of them may meet our own listener.
        self._beat()
        if self._task.elastic:
            self._begin_rounds(start)
        else:
            self._hire(start)
        for text in facts.leftovers():
            self._note(f"left over on {self._task.host}: {text}")

    def _hire(self, start: messages.Start) -> Crew:
        """Start the workers."""
        assert self._outfit is not None
        assert self._task is not None
        manners = Manners(self._outfit.program.no_python, self._task.allow_background)
        events = Events(self._output, self._exited, self._note, self._done, self._took)
        credit = start.credit if self._crew is None else self._crew.credit
        hire = self._pool.hire if self._pool is not None else spawn
        self._crew = Crew(self._loop, manners, events, self._others, hire)
        try:
            specs, logs = self._outfit.fit(start)
            with self._lined(specs, start.generation) as lined:
                self._crew.start(lined, logs, credit)
            self._send(messages.pack(frames.STARTED, _started(self._crew.processes)))
            self._watch_port(start.master_port)
            self._watch_bindings(start)
            if self._pool is not None:
                self._pool.fill(specs)
        except (SpawnFailed, OSError) as error:
            self._cannot_start(start, str(error))
        return self._crew

    def _lined(
        self, specs: Sequence[Spec], generation: int
    ) -> AbstractContextManager[Sequence[Spec]]:
        """Give the workers lines to the shard queues, where those are asked for."""
        assert self._task is not None
        if not self._task.shard_queue:
            return nullcontext(specs)
        if self._lines is None:
            from .shards import Lines

            self._lines = Lines(self._loop, self._send, self._note)
        return self._lines.given(specs, generation)

    def _on_answer(self, body: bytes) -> None:
        if self._lines is not None:
            self._lines.answer(*frames.unpack_answer(body))

    def _others(self) -> list[int]:
        """Return the children that are none of the crew's business."""
        spares = [] if self._pool is None else self._pool.pids
        return spares if self._agency is None else [self._agency.agent, *spares]

    # -- elastic jobs -----------------------------------------------------------------------

    def _begin_rounds(self, start: messages.Start) -> None:
        from .elastic.rounds import Agency, Calls

        assert self._outfit is not None
        if self._outfit.task.warm:
            from .elastic.warm_workers import Pool

            self._pool = Pool(self._loop, self._outfit.spare)
        try:
            calls = Calls(self._send, self._hire, self._rounds_over)
            self._agency = Agency(self._loop, self._outfit, start, calls)
        except (SpawnFailed, OSError) as error:
            self._note_loss(f"torch's agent does not start: {error}")
            self._done([])
            return
        self._handlers |= self._agency.handlers

    def _rounds_over(self, reason: str) -> None:
        """Leave the job: its workers here have ended well, or torch's agent is no more."""
        self._reason = reason
        self._stop_all(signal.SIGTERM, 0)

    def _stop_all(self, number: int, grace: float, *, told: bool = False) -> None:
        """Stop the workers, and let there be no other round."""
        if self._pool is not None:
            self._pool.close()
        if self._agency is not None:
            self._agency.over = True
            if self._agency.resting:
                self._done([])
                return
        if self._crew is not None:
            self._crew.stop(number, grace, told=told)

    def _dismiss(self, tell: Callable[[list[int]], None]) -> None:
        """End torch's agent, with all that it has started, and tell what could not be ended."""
        assert self._agency is not None
        self._agency.close()
        self._agency = None
        events = Events(self._output, self._exited, self._note, tell, self._took)
        self._crew = Crew(self._loop, Manners(), events)
        self._crew.stop(signal.SIGKILL, 0)
        self._crew.reap()  # an agent that had ended while there was no crew

    def _watch_bindings(self, start: messages.Start) -> None:
        """Have told what the workers are bound to, where that is asked for."""
        if self._outfit is None or self._crew is None or not self._outfit.reports_bindings:
            return
        from .workers.observed_affinity import Watch, placed

        bound = self._outfit.bound(start, self._crew.processes)

        def tell(standings: Sequence[tuple[str, str]]) -> None:
            told = bound._replace(workers=placed(bound.workers, standings))
            self._send(messages.pack(frames.BOUND, told))

        Watch(self._loop, self._crew.processes, tell)

    def _watch_port(self, port: int) -> None:
        """See whose store the workers meet at, if rank 0 here has it: torch's may be elsewhere."""
        assert self._crew is not None
        assert self._task is not None
        ranks = {process.spec.rank: process for process in self._crew.processes}
        if (rank0 := ranks.get(0)) and self._task.rendezvous is None:
            from .port_watch import PortWatch

            self._port_watch = PortWatch(self._loop, port, rank0, self._port_taken)

    def _port_problem(self, ended: Process) -> str:
        watch = self._port_watch
        return watch.problem() if watch and ended.spec.rank == 0 and ended.status else ""

    def _port_taken(self, text: str) -> None:
        """End the job: workers would meet in a stranger's store."""
        assert self._task is not None
        self._reason = text
        self._note_loss(text)
        self._stop_all(signal.SIGTERM, self._task.grace)

    def _cannot_start(self, start: messages.Start, reason: str) -> None:
        """Report the worker that did not start as one that ended with 126, the shell's code."""
        assert self._crew is not None
        crew = self._crew
        rank = start.first_rank + (start.only or 0) + len(crew.processes)
        failed = messages.Exit(rank, 0, 126, False, time.monotonic(), f"not started: {reason}")
        self._send(messages.pack(frames.EXIT, failed))
        if self._agency is not None:
            for missing in range(rank, start.first_rank + len(start.slots)):
                self._agency.exited(missing, 126)
        # Not at once: a crew of nobody would be at its end before whoever hires it knows of it.
        self._loop.after(0.0, lambda: crew.stop(signal.SIGTERM, 0))

    def _on_stop(self, body: bytes) -> None:
        stop = messages.unpack(messages.Stop, body)
        if self._crew is None and self._agency is None:
            self._done([])
            return

        def act() -> None:
            told = self._arrivals.everywhere(stop.number)
            self._stop_all(stop.number, stop.grace, told=told)

        self._when_settled(act)

    def _on_signal_frame(self, body: bytes) -> None:
        crew, number = self._crew, frames.unpack_signal(body)
        if crew is None:
            return

        def act() -> None:
            if not self._arrivals.everywhere(number):
                crew.signal_all(number)

        self._when_settled(act)

    def _when_settled(self, act: Callable[[], None]) -> None:
        """Pass on what the runner got; where it may be on its way here as well, see that first."""
        if self._task is not None and self._task.settle:
            self._loop.after(self._task.settle, act)
        else:
            act()

    def _on_credit(self, body: bytes) -> None:
        if self._crew is not None:
            self._crew.grant(frames.unpack_count(body))

    def _on_input(self, body: bytes) -> None:
        if self._crew is not None:
            self._crew.feed(body)

    def _on_lease(self, body: bytes) -> None:
        self._suspended = body == b"hold"
        if self._suspended:
            self._send(frames.pack(frames.LEASE, body))

    def _on_end_frame(self, body: bytes) -> None:
        end = messages.unpack(messages.End, body)
        if self._tells:
            from ..common.text import plain

            self.code = end.code
            sys.stderr.write(plain(end.story))
        self._loop.stop()

    # -- the crew's events ------------------------------------------------------------------

    def _output(self, rank: int, stream: int, data: bytes) -> None:
        self._send(frames.pack_output(rank, stream, data))

    def _took(self, count: int) -> None:
        self._send(frames.pack_count(frames.TOOK, count))

    def _exited(self, process: Process) -> None:
        assert process.status is not None
        code = os.waitstatus_to_exitcode(process.status)
        if self._lines is not None:
            self._lines.ended(process.spec.rank)
        ended = messages.Exit(
            process.spec.rank,
            process.pid,
            code,
            process.signalled,
            time.monotonic(),
            facts.hint(-code, self._oom_kills) or self._port_problem(process),
        )
        self._send(messages.pack(frames.EXIT, ended))
        if self._agency is not None:
            self._agency.exited(process.spec.rank, code)

    def _note(self, text: str) -> None:
        self._send(messages.pack(frames.NOTE, messages.Note(text)))

    def _done(self, left: list[int]) -> None:
        last = self._crew.last_words() if self._crew is not None else LastWords({}, {}, {})
        if self._agency is None:
            self._tell_done(left, last)
        elif self._agency.over:
            self._dismiss(lambda more: self._tell_done([*left, *more], last))
        else:
            self._agency.rested()

    def _tell_done(self, left: list[int], last: LastWords) -> None:
        words = tuple(map(kernel.stuck, left))
        if self._outfit is not None:
            self._outfit.let_port_go()  # who hears of the end may run the next job at once
        done = messages.Done(words, **last._asdict(), reason=self._reason)
        self._send(messages.pack(frames.DONE, done))
        self._over = True
        if self._crew is not None and self._crew.may_stay():
            self._guard.let_stay()
        if not self._link.open:
            for word in words:
                sys.stderr.write(f"dsrun: could not be ended: {word}\n")
            self._loop.stop()

    # -- signals ----------------------------------------------------------------------------

    def _on_own_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        else:
            self._arrivals.came(number, "launcher")

    def _on_signal(self, number: int, told: bool) -> None:
        """Act on a scheduler's signal; `told`: the workers have got it as well."""
        if number == signal.SIGQUIT:
            self._show()
        elif number not in ENDS:
            if self._crew is not None and not told:
                self._crew.signal_all(number)
        elif self._crew is None or self._task is None:
            self._loop.stop()
        else:
            name = signal.Signals(number).name
            self._send(
                messages.pack(frames.NOTE, messages.Note(f"the node launcher got {name}", number))
            )
            self._stop_all(number, self._task.grace, told=told)

    def _show(self) -> None:
        """Say which workers are here, where a person may have asked for it."""
        if self._tells and self._crew is not None:
            here = ", ".join(f"rank {p.spec.rank} (pid {p.pid})" for p in self._crew.processes)
            sys.stderr.write(f"dsrun: on this node: {here}; Ctrl-\\ on node 0 shows all\n")
            sys.stderr.flush()

    def _reap(self) -> None:
        if self._crew is not None:
            self._crew.reap()

    def _guard_died(self) -> None:
        """End the job at once: without the guard, this process's death would leave orphans.

        An engine that ends kills the guards of all nodes, as it knows of no others. Then there is
        nothing wrong here, and the workers have their grace.
        """
        self._reason = "its guard was killed"
        self.code = LOST
        if self._crew is None or self._task is None:
            self._loop.stop()
        else:
            self._note_loss(self._reason)
            self._stop_all(signal.SIGTERM, self._task.grace if self._task.by_engine else 0)

    def _note_loss(self, text: str) -> None:
        self._send(messages.pack(frames.NOTE, messages.Note(text, signal.SIGKILL)))


def _started(processes: Sequence[Process]) -> messages.Started:
    return messages.Started(
        tuple(one.spec.rank for one in processes), tuple(one.pid for one in processes)
    )
