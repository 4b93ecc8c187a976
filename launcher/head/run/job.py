"""A running job: started once everybody is ready, stopped as one, reported once."""

from __future__ import annotations

import signal

from ...backends import ENGINES
from ...backends.base import Reports
from ...common import loop as loops
from ...common.errors import SWEPT, UsageError
from ...common.wording import counted
from ...control import frames, messages
from ...control.link import Link
from ..elastic.unreached import WORDLESS, folded
from ..fleet.node_connection import Peer
from ..fleet.startup import Gathering, listed
from ..report import bindings
from ..report.report import Report, words
from ..shards.requests import ShardDesk
from .record import Account
from .start_message import order, window, world_of
from .stdin import Stdin
from .suspension import Suspension
from .workers import Workers, may_run_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...backends.base import Dial, Part
    from ...common.errors import DsrunError
    from ...control.line import Line
    from ...control.messages import Task
    from ...specs.plan import Node, Plan
    from ..output.console import Console
    from .policy import Rules

LAST_MARGIN = 35.0
"""Seconds beyond the grace for a node to say that nothing is left: its own give-up is 30."""

HANG_UP = 2.0
"""Seconds for node launchers to leave once the job is over."""

WORDS = 0.5
"""Seconds for a backend to say why a line has ended: a guard ends what is left before that."""

NO_DEVICES = "no accelerator found: these are CPU workers (--accelerator cpu, if so meant)"


class Job:
    """One job, from the first connection to its report.

    Attributes:
        peers: the nodes that take part, in rank order.
    """

    def __init__(
        self,
        job_id: str,
        plan: Plan,
        loop: loops.Loop,
        console: Console,
        rules: Rules,
        task: Callable[[Node], Task],
        nodes: Sequence[Node] | None = None,
    ) -> None:
        """Prepare the job; `nodes` are those that this process sees to, all of them by default."""
        self._account = Account(job_id, loop.clock())
        self._plan = plan
        self._loop = loop
        self._console = console
        self._rules = rules
        self._task = task
        self.peers = [Peer(node) for node in nodes or plan.nodes]
        self._by_rank = {peer.node.rank: peer for peer in self.peers}
        self._window = window(len(self.peers))
        self._error: DsrunError | None = None
        self._running = self._stopping = self._ending = False
        self._interrupts = 0
        self._first = self.peers[0]
        self._held: list[tuple[Peer, bytes]] = []
        self._suspension = Suspension(loop, self.peers)
        self._stdin: Stdin | None = None
        self._shards = ShardDesk(console)
        self._workers = Workers(loop, lambda text: console.say(text, "warning"))
        self._gathering = Gathering(
            plan,
            self.peers,
            loop,
            console,
            connect_timeout=rules.connect_timeout,
            start_timeout=rules.start_timeout,
            batches=rules.batches,
            least=rules.least,
            leave=self._leave,
            ready=self._ready,
            refuse=self._refuse,
        )

    def run(
        self, parts: Sequence[Part], dial: Dial | None, on_token: Callable[[str, str], None]
    ) -> Report:
        """Start every node with its backend, see the job through, and return how it ended.

        Args:
            parts: each backend with the nodes it starts.
            dial: where node launchers dial, for the backends that need it.
            on_token: told of every token that a node launcher announces.

        Raises:
            DsrunError: some node cannot take part; nothing is left running.
        """
        reports = self._reports(on_token)
        try:
            for backend, nodes in parts:
                backend.start(nodes, self._loop, reports, dial)
            self._loop.run()
        finally:
            for peer in self.peers:
                peer.hang_up()
            for backend, _ in parts:
                backend.close()
        if self._error is not None:
            raise self._error
        return self._report()

    def _reports(self, on_token: Callable[[str, str], None]) -> Reports:
        said, ended = self._gathering.said, self.on_session_end
        return Reports(self.on_line, on_token, ended, self._on_broken, said, self._warn)

    # -- lines ------------------------------------------------------------------------------

    def on_line(self, rank: int, line: Line) -> None:
        """Serve the line to a node, and tell it at once what the job is."""
        peer = self._by_rank[rank]
        line.limit(frames.NODE_LIMIT)
        link = Link(
            self._loop, line, self._handlers(peer), lambda why: self._closed(peer, why, link.fault)
        )
        peer.link = link
        peer.send(messages.pack(frames.JOB, self._task(peer.node)))

    def _handlers(self, peer: Peer) -> dict[int, Callable[[bytes], None]]:
        """What is done with each frame of a node's."""
        return {
            frames.HELLO: lambda body: self._gathering.hello(peer, body),
            frames.PROBED: lambda body: self._gathering.probed(peer, body),
            frames.OUTPUT: lambda body: self._on_output(peer, body),
            frames.STARTED: lambda body: self._on_started(peer, body),
            frames.EXIT: lambda body: self._on_exit(peer, body),
            frames.NOTE: lambda body: self._on_note(peer, body),
            frames.TOOK: lambda body: self._on_took(peer, body),
            frames.DONE: lambda body: self._on_done(peer, body),
            frames.ASK: lambda body: self._on_ask(peer, body),
            frames.BOUND: lambda body: self._on_bound(peer, body),
            frames.LEASE: lambda _body: self._suspension.granted(peer),
            frames.BEAT: lambda body: self._on_beat(peer, body),
        }

    def _closed(self, peer: Peer, reason: str, fault: str) -> None:
        """Take in that a line ended; before HELLO its backend will say why, but for our own."""
        peer.link = None
        if self._ending:
            self._leave_when_alone()
        elif self._running and not peer.over:
            told = fault or f"the line to its node launcher ended ({reason})"
            self._lose(peer, told, explained=bool(fault))
        elif not self._running and fault:
            self._fail_start(peer, fault)
        elif not self._running and peer.hello:
            self._fail_start(peer, f"its node launcher left before the start ({reason})")

    def on_session_end(self, rank: int, cause: str) -> None:
        """Take in a backend's word on the end of one node's session."""
        peer = self._by_rank[rank]
        if self._running or self._ending:
            peer.swept |= SWEPT in cause
            self._account.explain(peer.name, cause)
            if self._ending:
                self._leave_when_alone()
        else:
            self._fail_start(peer, cause or WORDLESS)

    def _on_broken(self, cause: str, code: int, killed: bool) -> None:
        """Take in that the engine of all nodes is over, while node launchers may live on."""
        waiting = [peer for peer in self.peers if not peer.over]
        if killed:
            self._account.doubt_signal()
        if self._running and (waiting or self._account.cut_off or killed):
            self._account.engine_ended(cause, code, self._loop.clock())
            self._stop(signal.SIGTERM, self._rules.grace)
        elif not self._running and not self._gathering.abandon():
            for peer in waiting:
                self._fail_start(peer, cause)

    def _warn(self, text: str) -> None:
        self._console.say(text, "warning")

    def _fail_start(self, peer: Peer, cause: str) -> None:
        peer.hello = None
        self._gathering.fail(peer, cause)

    # -- the start --------------------------------------------------------------------------

    @property
    def starting(self) -> bool:
        """Whether nodes are still waited for."""
        return not self._running and not self._ending

    def call_off(self, reason: str) -> None:
        """End the start: it is known that it cannot come about. A job that runs goes on."""
        if self.starting:
            self._gathering.give_up([reason])
        else:
            self._console.say(reason, "warning")

    def _refuse(self, error: DsrunError) -> None:
        self._error = error
        self._end()

    def _leave(self, unfit: Mapping[Peer, str]) -> None:
        """Start without nodes that cannot take part."""
        for peer, cause in unfit.items():
            peer.lost = cause
        causes = folded({peer.name: cause for peer, cause in unfit.items()})
        self._console.say(
            f"{causes}; starting without {'it' if len(unfit) == 1 else 'them'}", "warning"
        )

    def _ready(self, plan: Plan, master: str, port: int) -> None:
        """Start, unless what is known by now is not what was asked for."""
        self._bare = all(p.hello.accelerator == "cpu" for p in self.peers if p.hello)
        misfit = self._rules.misfit(plan, self._bare)
        if misfit:
            self._refuse(UsageError(misfit))
            return
        if self._rules.names_logs:
            folders = {p.name: f"log files in {p.hello.log_dir}" for p in self.peers if p.hello}
            for line in listed(folders):
                self._console.say(line)
        self._start(plan, master, port)

    def _start(self, plan: Plan, master: str, port: int) -> None:
        self._running = True
        self._account.began = self._loop.clock()
        present = [peer for peer in self.peers if not peer.over]
        for peer in present:
            peer.count_silence(self._loop.clock())
            peer.seat(plan.nodes[peer.node.rank])
        self._label(plan)
        orders = [
            (peer, messages.pack(frames.START, self._order(peer.node, master, port)))
            for peer in present
        ]
        # The first node listens on the master port until it starts; then the store does.
        self._first, self._held = present[0], orders[1:]
        self._first.send(orders[0][1])
        if self._rules.devices and self._bare:
            self._console.say(NO_DEVICES)
        where = f"{plan.nodes[0].host.name}: master {master}:{port}"
        size = counted(plan.world_size or 0, "worker")
        self._console.say(f"{size} on {counted(len(plan.nodes), 'node')}; {where}", "debug")
        if self._rules.stdin:
            self._stdin = Stdin(self._loop, self._first.send)
        self._beat()

    def _release(self, peer: Peer) -> None:
        """Start the other nodes once the first has said something after its own START."""
        if self._held and peer is self._first:
            held, self._held = self._held, []
            for other, order in held:
                other.send(order)

    def _label(self, plan: Plan) -> None:
        """Know whose output comes from which rank."""
        self._plan, self._world = plan, world_of(plan)
        for node in plan.nodes:
            self._label_workers(node)

    def _label_workers(self, node: Node) -> None:
        for worker in node.workers():
            text = self._rules.label(node, worker.rank, worker.local_rank)
            streams = self._rules.shown(worker.rank, worker.local_rank)
            self._console.label(worker.rank, text, streams)

    def _order(self, node: Node, master: str, port: int) -> messages.Start:
        return order(self._plan, node, master, port, self._window, self._world)

    # -- while it runs ----------------------------------------------------------------------

    def _on_output(self, peer: Peer, body: bytes) -> None:
        rank, stream, data = frames.unpack_output(body)
        size = len(data)
        peer.check_rank(rank)
        peer.wrote(size, self._window)
        self._console.feed(rank, stream, data, lambda: peer.took(size, self._window))

    def _on_took(self, peer: Peer, body: bytes) -> None:
        size = frames.unpack_count(body)
        if self._stdin is None or peer is not self._first:
            raise frames.BadFrame("input is taken where none was sent")
        self._stdin.took(size)

    def _on_ask(self, peer: Peer, body: bytes) -> None:
        peer.check_rank(frames.unpack_ask(body)[0])
        self._shards.asked(peer, body)

    def _on_beat(self, peer: Peer, body: bytes) -> None:
        peer.saw_clock(frames.unpack_beat(body), self._loop.clock())
        self._release(peer)

    def _on_started(self, peer: Peer, body: bytes) -> None:
        self._must_run()
        self._workers.started(peer, messages.unpack(messages.Started, body))

    def _on_exit(self, peer: Peer, body: bytes) -> None:
        ended = messages.unpack(messages.Exit, body)
        peer.check_end(ended.rank)
        self._release(peer)
        peer.saw_clock(ended.clock, self._loop.clock())
        self._shards.ended(peer, ended.rank)
        self._workers.ended(ended)
        self._exited(peer, ended)

    def _exited(self, peer: Peer, ended: messages.Exit) -> None:
        """Note the end of a worker; one that failed ends the job."""
        if self._account.exited(peer, ended):
            self._stop(signal.SIGTERM, self._rules.grace)

    def _on_note(self, peer: Peer, body: bytes) -> None:
        note = messages.unpack(messages.Note, body)
        peer.noted()
        if note.signal:
            self._must_run()
        if note.signal == signal.SIGKILL:
            # An engine that has come to its end kills guards, and will say why it ended.
            ours = self._plan.launcher not in ENGINES
            self._lose(peer, note.text, over=False, explained=ours)
        elif note.signal:
            self._console.say(f"{peer.name}: {note.text}", "warning")
            if not self._stopping:  # else it is the engine, which has seen another node's end
                self._account.stopped_by_node(note.signal)
            self._stop(note.signal, self._rules.grace)
        else:
            self._console.say(f"{peer.name}: {note.text}", "warning")

    def _on_bound(self, peer: Peer, body: bytes) -> None:
        """Show what all workers are bound to, once every node has told."""
        self._must_run()
        peer.bound = messages.unpack(messages.Bound, body)
        told = [(one.name, one.bound) for one in self.peers if one.bound]
        if len(told) == len(self.peers):
            self._console.say(bindings.table(told))

    def _must_run(self) -> None:
        """See that a frame is not heard of before its time.

        Raises:
            BadFrame: the job has not started.
        """
        if not self._running:
            raise frames.BadFrame("the job has not started")

    def _on_done(self, peer: Peer, body: bytes) -> None:
        self._must_run()
        peer.done = messages.unpack(messages.Done, body)
        self._end_when_over()

    def _beat(self) -> None:
        if not self._running or self._ending:
            return
        now = self._loop.clock()
        for peer in self.peers:
            peer.notes = 0
            if peer.link is not None and now - peer.link.heard >= self._rules.lease:
                self._miss(peer)
            peer.send(frames.pack(frames.BEAT))
        last = min((peer.link.heard for peer in self.peers if peer.link), default=now)
        self._loop.after(
            min(self._rules.lease / messages.BEATS, last + self._rules.lease - now), self._beat
        )

    def _miss(self, peer: Peer) -> None:
        """Lose a node that has been silent for too long."""
        peer.hang_up()
        self._lose(peer, f"no sign of life for {self._rules.lease:.0f} s")

    # -- stopping ---------------------------------------------------------------------------

    def end_by_signal(self, number: int) -> None:
        """End the job with a signal that this process got."""
        if not self._running:
            self._account.stop_signal = self._account.stop_signal or number
            self._end()
        else:
            self._stop_by_signal(number)

    def on_signal(self, number: int) -> None:
        """Act on a signal that this process got and that does not end the job."""
        if number in {signal.SIGUSR1, signal.SIGUSR2}:
            for peer in self.peers:
                peer.send(frames.pack(frames.SIGNAL, bytes([number])))
        elif number == signal.SIGTSTP:
            self._suspension.begin()
        elif number == signal.SIGQUIT:
            shown = self._workers.table() if self._running else self._gathering.words
            self._console.say(shown, "error")  # asked for, so shown however quiet dsrun is to be

    def on_broken_output(self) -> None:
        """Stop the job: nobody reads its output any more."""
        self._account.broken_pipe = True
        if self._running:
            self._stop(signal.SIGTERM, self._rules.grace)

    def _stop_by_signal(self, number: int) -> None:
        """First time: stop with grace. A second interrupt kills; a third does not wait for it."""
        self._account.stop_signal = self._account.stop_signal or number
        self._interrupts += number == signal.SIGINT
        name = signal.Signals(number).name
        if self._interrupts > 2:
            self._console.say(f"leaving at once; may still run on: {self._unfinished()}", "error")
            self._account.ended = self._loop.clock()
            self._loop.stop()
        elif self._interrupts == 2:
            self._console.say("killing all ranks now", "warning")
            self._stop(number, 0.0)
        else:
            more = "; interrupt again to kill them now" if number == signal.SIGINT else ""
            grace = self._rules.grace
            text = f"{name}: stopping {self._plan.world_size} ranks, grace {grace:g} s{more}"
            self._console.say(text, "warning")
            self._stop(number, grace)

    def _unfinished(self) -> str:
        return ", ".join(peer.name for peer in self.peers if not peer.over) or "none"

    def _stop(self, number: int, grace: float) -> None:
        """Stop every node; called again it passes the new signal on and shortens the grace."""
        for peer in self.peers:
            peer.send(messages.pack(frames.STOP, messages.Stop(number, grace)))
        self._held = []
        self._workers.close()
        if not self._stopping:
            self._stopping = True
            self._loop.after(grace + LAST_MARGIN, self._give_up_waiting)
        self._end_when_over()

    def _give_up_waiting(self) -> None:
        for peer in self.peers:
            if not peer.over:
                self._lose(peer, "it did not say that its workers have ended")

    def _lose(self, peer: Peer, reason: str, *, over: bool = True, explained: bool = True) -> None:
        """Note that a node is gone, and stop the others: half a job is none."""
        if peer.over:
            return
        if over:
            peer.lost = reason
        self._shards.lost(peer)
        self._doubt(peer)
        self._account.lost(peer.name, reason, self._loop.clock(), explained=explained)
        self._stop(signal.SIGTERM, self._rules.grace)

    def _doubt(self, peer: Peer) -> None:
        """Keep what may run on where a node is lost, until it says that nothing does."""
        workers = self._workers.lost(peer)
        if workers and peer.hello:
            seconds = self._rules.lease + self._rules.grace
            peer.left = may_run_on(peer.name, peer.hello.pids, workers, seconds)

    # -- the end ----------------------------------------------------------------------------

    def _end_when_over(self) -> None:
        if self._running and not self._ending and all(peer.over for peer in self.peers):
            self._end()

    def _end(self) -> None:
        """Tell every node launcher that it may leave, and wait until it has."""
        if self._ending:
            return
        self._ending = True
        self._account.ended = self._loop.clock()
        self._gathering.close()
        end = messages.pack(frames.END, self._story())
        for peer in self.peers:
            peer.send(end)
        self._loop.after(HANG_UP, self._loop.stop)
        self._loop.after(WORDS, self._await_no_more_words)
        self._leave_when_alone()

    def _await_no_more_words(self) -> None:
        self._account.await_no_more_words()
        self._leave_when_alone()

    def _story(self) -> messages.End:
        if self._error is not None:
            return messages.End(self._error.exit_code, f"dsrun: {self._error}\n")
        report = self._report()
        text = words(report)
        return messages.End(report.exit_code, f"{text}\n" if text else "")

    def _leave_when_alone(self) -> None:
        alone = not any(peer.link for peer in self.peers if peer.hello)
        if alone and not self._account.awaits_words:
            self._loop.stop()

    def _report(self) -> Report:
        return self._account.report(
            self.peers,
            self._plan.world_size or 0,
            graceful_term_ok=self._rules.graceful_term_ok,
        )._replace(ran=(self._plan.program, self._rules.folder))
