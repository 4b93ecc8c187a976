"""From the first connection to START: wait for every HELLO, check them, probe the master."""

from __future__ import annotations

from collections import Counter, deque
from functools import partial

from ...common.errors import NodeError, UsageError
from ...common.event_queue import Remaining
from ...common.records import NamedTuple
from ...common.wording import ANOTHER_PYTHON
from ...control import frames, messages
from ...specs.plan import LOCALHOST, with_slots
from ..fleet.hosts import by_cause, waiting_line
from .gate import GateStage
from .run_node import NodeState, assigned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol

    from ...common.errors import DsrunError
    from ...common.loop import Timer, Timers
    from ...control.messages import Hello
    from ...specs.batch_plan import BatchPlan
    from ...specs.plan import Plan
    from ..fleet.mutes import MuteNodes
    from .gate import Done
    from .run_node import RunNode

    class StartupActions(Protocol):
        """The actions and outcomes of a startup, carried out by the run."""

        def ask(self, node: RunNode) -> None:
            """Send this node its JOB again."""
            ...

        def send(self, nodes: Sequence[RunNode], frame: bytes) -> None:
            """Send these nodes a frame."""
            ...

        def log(self, text: str, level: str = "info") -> None:
            """Print a message for the user."""
            ...

        def status(self, text: str) -> None:
            """Show this as the status line, which replaces itself."""
            ...

        def check(self, stages: Sequence[GateStage], nodes: Sequence[RunNode], then: Done) -> None:
            """Check nodes that have sent HELLO by the gates of some stages; `then` follows."""
            ...

        def exclude(self, causes: Mapping[RunNode, str]) -> None:
            """Go on without these nodes; each has a reason why it cannot take part."""
            ...

        def ready(self, ready: AllReady) -> None:
            """Go on: all nodes are ready."""
            ...

        def fail(self, error: DsrunError) -> None:
            """End the run with this error."""
            ...


SHOW_AFTER = 0.5
"""Seconds until a terminal shows which hosts are missing."""

LOG_AFTER = 3.0
"""Seconds until a line names the missing hosts; repeated at five times this interval."""

PROBED_WITHIN = 10.0
"""Seconds beyond --connect_timeout for a node to report which addresses it reaches."""

FIRST_LOOK = 5.0
"""Seconds until the first search for sessions that run without a sign of a node launcher."""

LATE = "no answer in time (--connect_timeout, --start_timeout)"

UNPREPARED = "not prepared by --sync or --setup in time (--connect_timeout, --start_timeout)"

SILENT = "no answer since it was ready: the host or the network is down (--connect_timeout)"

NAMED_BY_USER = (
    *("--log_dir", "--bind_core_list", "--venv_script", "--numa_binding", "--no_python", "-m "),
    *("no such folder: ", "folder /", "no such script: ", "script /", "no such program: "),
)
"""Beginnings of the problems of a node that cannot use something named on the command line."""

LAST = 2
"""Latest lines of an engine's output that are quoted about nodes without a sign of life."""

HELD = 8
"""Lines of an engine's output that are held back until the start takes long."""


class StartLimits(NamedTuple):
    """The limits of a start; times in seconds.

    Attributes:
        connect: the wait for the other nodes once one has failed.
        start: the wait for all nodes.
        sign: the wait for the first sign of a node launcher.
        least: the smallest number of nodes to start with; None if all are needed.
        batches: the elastic batch plan that the number of workers must fit, if any.
        rounds: whether the job is elastic, so that each round has its own port.
        verbose: whether an engine's output is shown at once.
    """

    connect: float
    start: float
    sign: float = 60.0
    least: int | None = None
    batches: BatchPlan | None = None
    rounds: bool = False
    verbose: bool = False


class AllReady(NamedTuple):
    """The outcome of a startup: all nodes are ready.

    Attributes:
        plan: the settled plan.
        master: MASTER_ADDR of the workers.
        port: MASTER_PORT.
    """

    plan: Plan
    master: str
    port: int


class Startup:
    """Waits for all nodes, checks their HELLOs, settles the plan and chooses the master address.

    Attributes:
        probes: the number of answers to PROBE that each node owes.
    """

    def __init__(
        self,
        plan: Plan,
        nodes: Sequence[RunNode],
        timers: Timers,
        act: StartupActions,
        limits: StartLimits,
    ) -> None:
        """Prepare the start.

        Args:
            plan: the plan of the run.
            nodes: the nodes in rank order.
            timers: runs the time limits.
            act: carries out actions; the last one is `ready` or `fail`.
            limits: the limits of this start.
        """
        self._plan = plan
        self._nodes = self._all = list(nodes)
        self._timers, self._act, self._limits = timers, act, limits
        self._closed = False
        self._candidates: tuple[str, ...] = ()
        self.probes: Counter[RunNode] = Counter()
        self._unsettled = Remaining(lambda: self._nodes, lambda node: node.settled)
        self._mutes: MuteNodes | None = None
        self._checked: tuple[RunNode, ...] = ()
        self._passed = False
        self._master = ""
        self._ends: list[Timer] = []
        self._answers: Timer | None = None
        self._shortened = False
        self._ticks = 0
        self._held: deque[str] | None = deque(maxlen=HELD)
        self._heard: deque[str] = deque(maxlen=LAST)

    def start(self) -> None:
        """Start waiting for the nodes."""
        self._limit()
        self._timers.call_later(SHOW_AFTER, self._tick)
        self._timers.call_later(FIRST_LOOK, self._look_for_mutes)

    def _limit(self) -> None:
        self._ends.append(self._timers.call_later(self._limits.start, self._out_of_time))

    def close(self) -> None:
        """Stop waiting."""
        self._closed = True
        for timer in (*self._ends, *filter(None, [self._answers])):
            timer.cancel()
        self._act.status("")

    def fail(self, node: RunNode, cause: str) -> None:
        """Record that a host cannot be used; the others then have only --connect_timeout left."""
        self.fail_all([node], cause)

    def fail_all(self, nodes: Sequence[RunNode], cause: str) -> None:
        """Record that these hosts cannot be used, before deciding whether the others can start."""
        for node in nodes:
            node.ask_again()
        failed = [] if self._closed else [node for node in nodes if not node.settled]
        for node in failed:
            node.fail(cause)
        if failed:
            self._shorten_wait()
            self._advance()

    def cancel_if_unfit(self) -> bool:
        """Give up now if some host cannot be used; return whether there is such a host."""
        failed = self._failed()
        if failed and not self._closed:
            self.cancel(failed)
        return bool(failed)

    def show(self, text: str) -> None:
        """Print a line of the engine's output, or hold it back until the start takes long."""
        self._heard.append(text)
        if self._closed or self._held is None or self._limits.verbose:
            self._act.log(text, "debug" if self._closed else "info")
        else:
            self._held.append(text)

    @property
    def words(self) -> str:
        """The progress, for example "61/64 hosts, waiting for node7, node9, node41"."""
        return waiting_line(len(self._nodes), [one.name for one in self._nodes if not one.settled])

    def on_hello(self, node: RunNode, hello: Hello) -> None:
        """Handle a node's HELLO."""
        node.answer(hello)
        self.probes[node] = 0  # with its JOB, it has dropped the PROBEs before it
        if hello.problems:
            self._shorten_wait()
        self._advance()

    def _shorten_wait(self) -> None:
        """Shorten the wait for the other nodes: the start will fail."""
        if not self._shortened:
            self._shortened = True
            self._ends.append(self._timers.call_later(self._limits.connect, self._out_of_time))

    def on_probed(self, node: RunNode, body: bytes) -> None:
        """Handle PROBED: the addresses of the master that a node reaches.

        Raises:
            BadFrame: there was no PROBE to answer.
        """
        verdicts = messages.unpack(messages.Probed, body).verdicts
        if not self.probes[node]:
            raise frames.BadFrame("PROBED without a PROBE")
        self.probes[node] -= 1
        if self.probes[node] or self._closed or self._probed is not self._nodes:
            return  # another PROBE was sent, or will be, because the nodes have changed
        if len(verdicts) != len(self._candidates):
            raise frames.BadFrame(f"{len(verdicts)} verdicts on {len(self._candidates)} addresses")
        node.verdicts = verdicts
        if not self._unprobed:
            self._choose_master()

    def _advance(self) -> None:
        if self._closed or self._unsettled:
            return
        self._exclude_unfit({node: cause for node in self._nodes if (cause := _unfit(node))})
        if self._unsettled:
            return
        if failed := self._failed() or _problems(self._nodes):
            self.cancel(failed)
        else:
            self._check(GateStage.START, self._fill_slots)

    def _check(self, stage: GateStage, then: Callable[[], None]) -> None:
        """Check all nodes; then go on, without those that are refused if enough others remain."""
        self._checked = nodes = tuple(self._nodes)

        def on_checked(refused: Mapping[RunNode, str], lines: Sequence[str]) -> None:
            if self._closed or self._unsettled or self._checked is not nodes:
                return  # a later check goes on instead
            if not refused:
                then()
            elif self._exclude_unfit(refused):
                self._advance()
            else:
                self.cancel(lines or lines_by_cause(refused))

        self._act.check((stage,), nodes, on_checked)

    def _exclude_unfit(self, unfit: Mapping[RunNode, str]) -> bool:
        """Drop nodes that cannot take part, if enough others remain; return whether that is so.

        A new first node may not hold the master port yet; then it is sent JOB again.
        """
        rest = [node for node in self._nodes if node not in unfit]
        if self._limits.least is None or not unfit or len(rest) < self._limits.least:
            return False
        self._act.exclude(unfit)
        portless = not self._limits.rounds and rest[0] is not self._nodes[0]
        self._nodes = rest
        self._plan = assigned(self._plan, rest)
        if portless:
            rest[0].ask_again()
            self._act.ask(rest[0])
            self._limit()
        return True

    def _failed(self) -> list[str]:
        return lines_by_cause({node: cause for node in self._nodes if (cause := _failed(node))})

    def _fill_slots(self) -> None:
        unknown = [n for n in self._nodes if n.node.slots is None]
        counts = {n.node.rank: n.hello.slots for n in unknown if n.hello}
        if counts:
            self._plan = with_slots(self._plan, counts)
        batches = self._limits.batches
        if batches is not None and (misfit := batches.misfit(self._plan.world_size or 0)):
            self.cancel([misfit])
            return
        first = self._nodes[0]
        assert first.hello is not None
        self._port = first.hello.port or self._plan.master_port or 0
        self._candidates = _candidates(self._plan, first)
        self._master, self._passed = "", False
        self._check(GateStage.MASTER, self._pass)
        if len(self._nodes) == 1 or first.hello.port is None:
            self._finish(self._candidates[0])
            return
        probe = messages.pack(frames.PROBE, messages.Probe(self._candidates, self._port))
        self._probed, others = self._nodes, self._nodes[1:]
        self.probes.update(others)
        self._unprobed = Remaining(lambda: others, lambda node: not self.probes[node])
        self._act.send(others, probe)
        self._await_answers()

    def _await_answers(self) -> None:
        if self._answers is not None:
            self._answers.cancel()
        limit = self._limits.connect + PROBED_WITHIN
        self._answers = self._timers.call_later(limit, self._miss_answers)

    def _miss_answers(self) -> None:
        """Drop the nodes that do not answer, as nothing else can make them fail at this point."""
        silent = [node for node in self._nodes if self.probes[node]]
        for node in silent:
            node.fail(SILENT)
        if silent:
            self._advance()

    def _choose_master(self) -> None:
        verdicts = {node.name: node.verdicts for node in self._nodes[1:]}
        from ...features.quick_check.runner_before_start import choose_master

        address, reasons = choose_master(self._candidates, verdicts, self._port)
        if address:
            self._finish(address)
        else:
            given, first = self._plan.master_addr, self._nodes[0].name
            advice = f"check that --master_addr {given} is an address of node 0 ({first})"
            self.cancel([*reasons, *([advice] if given else [])])

    def _pass(self) -> None:
        self._passed = True
        self._finish(self._master)

    def _finish(self, address: str) -> None:
        """Use this address of the master; finish once the nodes have passed all gates as well."""
        self._master = address
        if self._master and self._passed:
            self.close()
            self._act.ready(AllReady(self._plan, address, self._port))

    def cancel(self, reasons: Sequence[str]) -> None:
        """Give up the start for these reasons."""
        self.close()
        if self._input_is_wrong():
            self._act.fail(UsageError("\n".join(reasons)))
            return
        lines = "\n".join(f"  {reason}" for reason in reasons)
        mute = any(n.connection.silence.seconds or n.reason in {LATE, SILENT} for n in self._all)
        left = "no worker was started" if mute else "nothing was left running"
        self._act.fail(NodeError(f"the job cannot start; {left}:\n{lines}"))

    def _input_is_wrong(self) -> bool:
        """Return whether every problem is about something that the user has named."""
        program = self._plan.program
        named = bool(program.python or program.project_python)
        unfit = [node for node in self._nodes if _unfit(node)]
        return bool(unfit) and all(_lacks_named(node, python=named) for node in unfit)

    def _out_of_time(self) -> None:
        for node in self._nodes:
            if not node.settled and not node.busy:
                node.fail(LATE if node.task or not node.connection.connected else UNPREPARED)
        self._advance()

    def _look_for_mutes(self) -> None:
        """Report sessions that run without a sign of a node launcher; fail those that last."""
        if self._closed:
            return
        if self._mutes is None:
            from ..fleet.mutes import MuteNodes

            warn = partial(self._act.log, level="warning")
            self._mutes = MuteNodes(self._limits.sign, warn, lambda: "; ".join(self._heard))
        waiting = {node.connection: node for node in self._nodes if not node.settled}
        for cause, silent in self._mutes.check(self._timers.clock(), waiting).items():
            self.fail_all([waiting[one] for one in silent], cause)
        self._timers.call_later(self._mutes.pause, self._look_for_mutes)

    def _tick(self) -> None:
        if self._closed or not self._unsettled:
            return
        self._ticks += 1
        text = self.words
        self._act.status(f"dsrun: {text}")
        seconds = self._ticks * SHOW_AFTER
        if seconds == LOG_AFTER or seconds % (5 * LOG_AFTER) == 0:
            self._act.log("\n".join([text, *(self._held or ())]))
            self._held = None
        self._timers.call_later(SHOW_AFTER, self._tick)


def _problems(nodes: Sequence[RunNode]) -> list[str]:
    """Return every reason why these nodes cannot run the job together, a line each."""
    hellos = {n.node.rank: n.hello for n in nodes if n.hello}
    if len(nodes) == 1 and not any(hello.problems for hello in hellos.values()):
        return []
    from ...features.quick_check import runner_before_start as before_start
    from ...features.quick_check import runner_missing_here as missing_here

    found = before_start.problems([n.node for n in nodes], hellos)
    return missing_here.with_names(found) if found else []


def _candidates(plan: Plan, first: RunNode) -> tuple[str, ...]:
    """Return the addresses of the first node to try, in the order of preference."""
    if len(plan.nodes) == 1:
        return (plan.master_addr or LOCALHOST,)
    from ...features.quick_check.runner_before_start import master_candidates

    assert first.hello is not None
    return master_candidates(first.node, first.hello, plan.master_addr)


def lines_by_cause(causes: Mapping[RunNode, str]) -> list[str]:
    """Return lines for the user about nodes and the cause of each."""
    return by_cause({node.name: cause for node, cause in causes.items()})


def _failed(node: RunNode) -> str:
    return node.reason if node.state is NodeState.UNUSABLE else ""


def _unfit(node: RunNode) -> str:
    return _failed(node) or "; ".join(node.hello.problems if node.hello else ())


def _lacks_named(node: RunNode, *, python: bool) -> bool:
    """Return whether a node cannot use something that the user named, or run the chosen Python."""
    if python and ANOTHER_PYTHON in _unfit(node):
        return True
    problems = node.hello.problems if node.hello else ()
    return bool(problems) and all(one.startswith(NAMED_BY_USER) for one in problems)
