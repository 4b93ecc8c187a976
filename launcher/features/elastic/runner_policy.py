"""The runner's own rounds: a restart policy that survives failures and losses, within limits."""

from __future__ import annotations

import signal
from functools import partial

from ...common.errors import NO_PROGRESS, NodeError
from ...common.exit_codes import as_shell
from ...common.loop import DueTimer
from ...common.wording import counted
from ...control import frames, messages, round_messages
from ...head.run.gate import GateStage
from ...head.run.restart_policy import BEYOND, report_error, stop_for
from ...head.run.run_node import assigned
from . import runner_round_changes as round_changes
from .runner_admission import NodeAdmission
from .runner_node_directory import MasterAddresses, RunNodes
from .runner_round_changes import FormRound
from .runner_round_health import RoundHealth
from .runner_rounds import Rounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Concatenate, ParamSpec, TypeVar

    from ...control.messages import Hello
    from ...control.round_messages import Join
    from ...head.run.events import Observer
    from ...head.run.restart_policy import GiveUp
    from ...head.run.run_node import RunNode
    from ...head.run.run_state import RunState
    from ...head.run.startup import AllReady
    from ...specs.host import Host
    from ...specs.policies import ElasticPolicy
    from .runner_admission import Membership
    from .runner_restart_filter import RestartFilter

    P = ParamSpec("P")
    T = TypeVar("T")

ENDED_EARLY = "its workers ended while others restarted, and too few nodes remain"

TOO_FEW = "too few nodes for too long (--min_wait)"


class RunnerRounds:
    """Forms rounds of the nodes that are there, and replaces those that are lost."""

    def __init__(self, run: RunState, limits: ElasticPolicy) -> None:
        """Decide for a run, which needs only `limits.least` of its nodes."""
        self.least: int | None = limits.least
        self.handlers = {
            frames.READY: self._on_join,
            frames.PROBED: self._on_probed,
            frames.FINISHED: self._on_finished,
            frames.AGENT_FAILED: self._on_agent_failure,
        }
        self._run, self._nodes, self._limits = run, run.nodes, limits
        self._do, self._decide = run.do, run.decide
        self._record, self._timers = run.record, run.timers
        self._running = self._closed = False
        self._joins: dict[RunNode, Join] = {}
        self._for_good: set[RunNode] = set()
        self._failed: set[RunNode] = set()
        self._master = MasterAddresses()
        needed = GateStage.NODE in run.act.stages
        self._health = RoundHealth(needed=needed, clock=run.clock, check=self._check_node)
        directory = RunNodes(self._nodes, run.spec.batches, self._master, self._health)
        size, now = len(self._nodes), self._timers.clock()
        self._rounds = rounds = Rounds(self, run.decide, size, limits, directory, now)
        tell = self._tell
        self._alarm = DueTimer(self._timers, self._timers.clock, lambda: tell(rounds.time_passed))
        self._admission = NodeAdmission(
            run,
            rounds,
            lambda number: tell(rounds.node_connected, number),
            lambda number: tell(rounds.node_removed, number),
            limits.most,
        )
        self._filter = _filter(limits)

    @property
    def observer(self) -> Observer | None:
        """The observer of the run for this policy, or None."""
        return self._filter.on_event if self._filter else None

    # -- the start --------------------------------------------------------------------------

    def on_start(self, start: AllReady, first: RunNode, probes: Mapping[RunNode, int]) -> None:
        """Reach lost nodes again; the first round is formed when the others are ready."""
        self._running, self._plan = True, start.plan
        self._master.on_start(first, start.master, start.plan.master_addr)
        probed = first.hello is not None and first.hello.port is not None
        others = [one for one in self._nodes if probed and one is not first and not one.over]
        reached = tuple(one.number for one in others)
        owed = {node.number: count for node, count in probes.items()}
        self._tell(self._rounds.job_started, first.number, start.master, reached, owed)
        for node in self._nodes:
            if node.lost:
                self._tell(self._rounds.node_lost, node.number)
                self._admission.expect(node)

    def world_size(self, planned: int) -> int:
        """Return the number of workers of the newest round."""
        return planned

    # -- rounds -----------------------------------------------------------------------------

    def _tell(
        self,
        happened: Callable[Concatenate[float, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Pass an event to the rounds, whose actions follow; return the answer."""
        answer = happened(self._timers.clock(), *args, **kwargs)
        self._alarm.set(self._rounds.due)
        return answer

    def _send(self, numbers: Iterable[int], frame: bytes) -> None:
        self._run.send(self._some(numbers), frame)

    def _some(self, numbers: Iterable[int]) -> list[RunNode]:
        return [self._nodes[number] for number in numbers]

    def _on_join(self, node: RunNode, body: bytes) -> None:
        join = messages.unpack(round_messages.Join, body)
        if self._running and not node.over:
            self._check_left(node)
            self._joins[node] = join
            self._tell(self._rounds.node_ready, node.number)

    def _check_left(self, node: RunNode) -> None:
        """Check that a node that reports READY may have left the current round.

        A member leaves when the runner asks it to, or when one of its workers has failed: that
        worker's EXIT comes before READY, except with torch's agent.

        Raises:
            BadFrame: its present workers would run beside the next round's workers.
        """
        running = self._limits.agent == "dsrun" and self._rounds.is_running(node.number)
        if running and not (self._rounds.round_ends or node in self._failed):
            raise frames.BadFrame("ready for a round, but still in the last one")

    def _on_probed(self, node: RunNode, body: bytes) -> None:
        verdicts = messages.unpack(messages.Probed, body).verdicts
        try:
            self._tell(self._rounds.node_reached, node.number, verdicts)
        except ValueError as error:
            raise frames.BadFrame(str(error)) from None

    @property
    def starting(self) -> bool:
        """True while a first output would show that the workers of a round have started well."""
        return self._rounds.starting

    def on_output(self, node: RunNode, rank: int) -> None:
        """Note that the workers of a round have started well."""
        if self._rounds.starting and self._run.workers.runs(node, rank):
            self._tell(self._rounds.worker_printed)

    def _lose(self, node: RunNode, reason: str) -> None:
        now = self._run.clock()
        silent = now - (node.connection.heard() or now)
        self.await_end(node, BEYOND * self._lease - silent)
        self._do(self._run.act.close_line, node, reason)
        self._decide(self._run.lose, node, reason)

    @property
    def _lease(self) -> float:
        return self._run.spec.supervision.heartbeat_timeout

    def _check_node(self, node: RunNode) -> None:
        self._run.check_node((GateStage.NODE,), node, partial(self._on_checked, node))

    def _on_checked(self, node: RunNode, why: str) -> None:
        """Give up a node that may not be in the next round; it may be reached again."""
        if why:
            self._lose(node, why)
        else:
            node.passed_at = self._run.now
            self._tell(self._rounds.nodes_checked)

    # -- failures and losses ----------------------------------------------------------------

    def on_failure(self, node: RunNode, ended: messages.WorkerExit) -> None:
        """Survive the failure of a worker with another round, or end the run."""
        self._failed.add(node)
        if not self._running:
            self._record.exited(node, ended)
            self._decide(self._run.stop, signal.SIGTERM)
            return
        code = as_shell(ended.code)
        how = f"exited {code}" if ended.code > 0 else f"was killed by signal {-ended.code}"
        what = f"rank {ended.rank} on {node.name} {how}"
        final = self._filter.refusal(node.name, ended) if self._filter else ""
        if not self._tell(self._rounds.worker_failed, what, code, node.number, final=bool(final)):
            if final:
                self.warn(f"no restart: {what}; {final}")
            self._record.exited(node, ended)

    def restart(self, why: str, otherwise: GiveUp) -> None:
        """Form another round of the same nodes for this reason, if there is a restart left."""
        if not self._tell(self._rounds.restart_requested, why, NO_PROGRESS):
            self._decide(stop_for, self._run, otherwise)

    def _on_agent_failure(self, node: RunNode, body: bytes) -> None:
        failure = messages.unpack(round_messages.AgentFailure, body)
        self.await_end(node, BEYOND * self._lease)
        if failure.unusable:
            self._for_good.add(node)
            if not self._rounds.generation and not self.survives(node):
                error = NodeError(f"{node.name}: {failure.reason}")
                self._decide(report_error, self._run, error)
        self._decide(self._run.lose, node, failure.reason, over=False)

    def survives(self, node: RunNode) -> bool:
        """Return whether the run continues without a node that is lost."""
        return self._rounds.survives(node.number) if self._running else self._rounds.over

    def on_loss(self, node: RunNode) -> None:
        """Form another round without a lost node, and reach it again."""
        if self._running:
            self._tell(self._rounds.node_lost, node.number)
        if self._rounds.over:
            self._decide(self._run.finish_if_over)
        elif node in self._for_good:
            self._admission.cancel(node)
        else:
            self.membership.lost(node)

    def await_end(self, node: RunNode, seconds: float) -> None:
        """Form no other round before the workers of this node have ended.

        Its guard may have said so already.
        """
        if not node.cleaned_up:
            self._tell(self._rounds.node_vanishing, node.number, seconds)

    def outlives_engine(self) -> bool:
        """Return whether all that the engine had started is lost or done already."""
        return self._admission.only

    # -- nodes that come --------------------------------------------------------------------

    def on_hello(self, node: RunNode, hello: Hello) -> None:
        """Accept a new or returned node, if it fits the present ones."""
        self._admission.on_hello(node, hello)

    def on_node_end(self, node: RunNode, cause: str) -> None:
        """Handle the end of a session, which may have been an attempt to reach a node again."""
        if node.cleaned_up:
            self._tell(self._rounds.workers_gone, node.number)
        self._admission.on_node_end(node, cause)

    def resize(self, nodes: int) -> None:
        """Form rounds of at most this number of nodes from now on."""
        self.warn(f"resizing to {counted(nodes, 'node')}, as dsrun-job requested")
        self._tell(self._rounds.size_limited, nodes)

    @property
    def membership(self) -> Membership:
        """The choice of hosts that may take part."""
        return self._admission.membership

    # -- the end ----------------------------------------------------------------------------

    def _on_finished(self, node: RunNode, body: bytes) -> None:
        finished = messages.unpack(round_messages.Finished, body)
        self._tell(self._rounds.node_finished, node.number, finished.generation)

    def on_done(self, node: RunNode) -> None:
        """Handle a node that has ended on its own, or that was released or lost."""
        self._tell(self._rounds.workers_gone, node.number)
        if node.lost:
            return
        was_leaving = self._rounds.is_leaving(node.number)
        if not self._tell(self._rounds.node_done, node.number):
            self._decide(self._record.lost, node.name, ENDED_EARLY, self._run.clock())
            self._decide(self._run.stop, signal.SIGTERM)
        if was_leaving:
            self.membership.gone(node)

    def close(self) -> None:
        """Form no other round, and stop reaching nodes."""
        self._running, self._closed = False, True
        self._tell(self._rounds.job_stopped)
        self._admission.close()

    # -- what the rounds decide (`RoundActions`) ----------------------------------------------

    def probe(self, first: int, nodes: tuple[int, ...]) -> None:
        """Make each of `nodes` try the addresses of `first`."""
        one = self._nodes[first]
        probe = messages.Probe(self._master.addresses(one), self._joins[one].probe)
        self._send(nodes, messages.pack(frames.PROBE, probe))

    def form(self, members: tuple[int, ...], address: str, restarts: int) -> None:
        """Form the next round of these nodes, in this order."""
        nodes = self._some(members)
        self._failed.clear()
        self._health.began(nodes)
        first = nodes[0]
        formed = FormRound(
            nodes=nodes,
            plan=assigned(self._plan, nodes),
            master=self._master.alone(first) if len(nodes) == 1 else address,
            port=self._joins[first].port,
            number=self._rounds.generation,
            restarts=restarts,
            most=self._limits.restarts,
        )
        self._decide(round_changes.form_round, self._run, formed)

    def stop_round(self, nodes: tuple[int, ...]) -> None:
        """Make these nodes leave their round."""
        self._send(nodes, frames.pack(frames.LEAVE_ROUND))

    def notify(self, nodes: tuple[int, ...]) -> None:
        """Make these nodes tell their workers that the round will end soon."""
        self.warn(f"the nodes of the job will change in {self._limits.notice:g} s")
        self._send(nodes, frames.pack(frames.CHANGE_SOON))

    def release(self, node: int) -> None:
        """Release this node, which is no longer needed."""
        one = self._nodes[node]
        self.warn(f"removing {one.name} from the job")
        self._decide(round_changes.release, self._run, one)

    def lose(self, node: int, reason: str, *, for_good: bool) -> None:
        """Close a node's connection: without one it ends its workers itself."""
        one = self._nodes[node]
        if for_good:
            self._for_good.add(one)
        self._lose(one, reason)

    def check(self, nodes: tuple[int, ...]) -> None:
        """Check these nodes by the gates before a round."""
        self._health.check(self._some(nodes))

    def stop_for_failure(self) -> None:
        """End the job: no node was lost that could explain the failure."""
        self._decide(self._run.stop, signal.SIGTERM)

    def clear_failures(self) -> None:
        """Forget the failures of the round, which the loss of a node has caused."""
        self._record.clear_exits()

    def stop_too_few(self) -> None:
        """End the job: there were too few nodes for too long."""
        if self._running:
            self._decide(self._run.record_given_up, TOO_FEW)
            self._decide(self._run.stop, signal.SIGTERM)

    def finish(self) -> None:
        """End the job, as all workers of the round have ended with code 0."""
        self._decide(self._run.stop, signal.SIGTERM, 0.0)

    def warn(self, text: str) -> None:
        """Print a warning for the user."""
        self._run.warn(text)


def policy(run: RunState) -> RunnerRounds:
    """Return the restart policy of an elastic run."""
    assert run.spec.elastic is not None
    return RunnerRounds(run, run.spec.elastic)


def resize(run: RunState, nodes: int) -> None:
    """Limit the rounds of an elastic run to this number of nodes from now on."""
    _rounds_of(run).resize(nodes)


def list_hosts(run: RunState, hosts: Sequence[Host]) -> None:
    """Use these hosts and no others for an elastic run: reach new ones, release the others."""
    _rounds_of(run).membership.take(hosts)


def replace_host(run: RunState, lost: str, host: Host) -> None:
    """Use a host in later rounds of an elastic run in place of a lost node of this name."""
    _rounds_of(run).membership.replace(lost, host)


def _rounds_of(run: RunState) -> RunnerRounds:
    assert isinstance(run.restarts, RunnerRounds)
    return run.restarts


def _filter(limits: ElasticPolicy) -> RestartFilter | None:
    """Return the filter for failures that are worth a restart; None if all are."""
    if not limits.restart_on:
        return None
    from .runner_restart_filter import RestartFilter

    return RestartFilter(limits.restart_on)
