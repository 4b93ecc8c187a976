"""The runner's own rounds: a restart policy that survives failures and losses, within limits."""

from __future__ import annotations

import signal
from functools import partial

from ...common.errors import NO_PROGRESS, NodeError, UsageError
from ...common.exit_codes import as_shell
from ...common.wording import counted
from ...control import frames, messages, round_messages
from ..fleet.hosts import some_of
from ..run.phase import Phase
from ..run.restart_policy import BEYOND
from ..run.run_node import assigned
from ..run.start_message import round_frames
from . import round_events as events
from .admission import NodeAdmission
from .node_directory import MasterAddresses, RunNodes
from .round_actions import (
    ActionQueue,
    CheckNodes,
    DropNode,
    EndJob,
    Finish,
    ForgetFailures,
    Form,
    Log,
    Notify,
    Probe,
    Release,
    StopRound,
    TooFew,
)
from .round_health import RoundHealth
from .rounds import Rounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...common.loop import Timer
    from ...control.messages import Hello
    from ...control.round_messages import Join
    from ...specs.host import Host
    from ...specs.plan import Plan
    from ...specs.policies import ElasticPolicy
    from ..run.run import Run
    from ..run.run_node import RunNode
    from .restart_filter import RestartFilter
    from .round_actions import RoundAction
    from .round_events import RoundEvent

ENDED_EARLY = "its workers ended while others restart, and too few nodes are left"

TOO_FEW = "too few nodes for too long (--min_wait)"


class RunnerRounds:
    """Forms rounds of the nodes that are there, and replaces those that are lost."""

    def __init__(self, run: Run, limits: ElasticPolicy) -> None:
        """Decide for a run, of all whose nodes `limits.least` are enough."""
        self.least: int | None = limits.least
        self.handlers = {
            frames.READY: self._on_join,
            frames.PROBED: self._on_probed,
            frames.FINISHED: self._on_finished,
            frames.AGENT_FAILED: self._on_agent_failure,
            frames.OUTPUT: self._on_output,
        }
        self._run, self._limits, self._loop = run, limits, run.loop
        self._master = MasterAddresses()
        give_up = partial(self._give_up, for_good=False)
        self._health = RoundHealth(run.health, give_up, lambda: self._handle(events.NodesChecked()))
        directory = RunNodes(run.nodes, run.spec.batches, self._master, self._health)
        self._rounds = Rounds(len(run.nodes), limits, directory, run.loop.awake())
        self._actions = ActionQueue(self._act)
        self._alarm: tuple[float, Timer] | None = None
        self._admission = NodeAdmission(run, self._rounds, self._handle, limits.most)
        self._joins: dict[int, Join] = {}
        self._closers: list[Callable[[], None]] = []
        self._filter = _filter(run, limits)

    def close_too(self, close: Callable[[], None]) -> None:
        """Call `close` when no round is formed any more."""
        self._closers.append(close)

    # -- the start --------------------------------------------------------------------------

    def on_start(self) -> None:
        """Reach lost nodes again; the first round is formed when the others are ready."""
        run = self._run
        self._plan = run.plan
        self._master.on_start(run.staged.first, run.master, run.plan.master_addr)
        self._note_addresses()
        for node in run.nodes:
            if node.lost:
                self._handle(events.NodeLost(node.number))
                self._admission.expect(node)

    def _note_addresses(self) -> None:
        """Note which nodes have reached the first one at the start, and which owe an answer."""
        first, run = self._run.staged.first, self._run
        probed = first.hello is not None and first.hello.port is not None
        others = [one for one in run.nodes if probed and one is not first and not one.over]
        reached = tuple(one.number for one in others)
        owed = {node.number: count for node, count in run.startup.probes.items()}
        self._handle(events.JobStarted(first.number, run.master, reached, owed))

    def world_size(self, planned: int) -> int:
        """Return the number of workers of the newest round."""
        return planned

    # -- rounds -----------------------------------------------------------------------------

    def _handle(self, event: RoundEvent) -> bool:
        """Handle an event, and carry out what follows; return its answer."""
        accepted = self._decide(event)
        self._actions.run()
        return accepted

    def _decide(self, event: RoundEvent) -> bool:
        """Handle an event; what follows is carried out later. Return its answer."""
        now = self._loop.awake()
        step = self._rounds.step(now, event)
        self._actions.add(step.actions)
        self._set_alarm(now, self._rounds.due)
        return step.accepted

    def _set_alarm(self, now: float, due: float | None) -> None:
        """Have the rounds look again when something is due."""
        if self._alarm is not None:
            if self._alarm[0] == due:
                return
            self._alarm[1].cancel()
        self._alarm = None if due is None else (due, self._loop.call_later(due - now, self._wake))

    def _wake(self) -> None:
        self._alarm = None
        self._handle(events.TimePassed())

    def _act(self, action: RoundAction) -> None:
        match action:
            case Probe(first, numbers):
                self._probe(first, self._nodes(numbers))
            case Form(numbers, address, restarts):
                self._form(self._nodes(numbers), address, restarts)
            case StopRound(numbers):
                self._run.send(self._nodes(numbers), frames.pack(frames.LEAVE_ROUND))
            case Notify(numbers):
                self._run.warn(f"the nodes of the job will change in {self._limits.notice:g} s")
                self._run.send(self._nodes(numbers), frames.pack(frames.CHANGE_SOON))
            case Release(number):
                self._release(self._run.nodes[number])
            case DropNode(number, reason, for_good):
                self._give_up(self._run.nodes[number], reason, for_good=for_good)
            case CheckNodes(numbers):
                self._health.check(self._nodes(numbers))
            case EndJob():
                self._run.stop(signal.SIGTERM)
            case ForgetFailures():
                self._run.record.forget_exits()
            case TooFew():
                self._too_few()
            case Finish():
                self._run.stop(signal.SIGTERM, 0)
            case Log(text):
                self._run.warn(text)

    def _nodes(self, numbers: Iterable[int]) -> list[RunNode]:
        return [self._run.nodes[number] for number in numbers]

    def _on_join(self, node: RunNode, body: bytes) -> None:
        self._run.check_started()
        join = messages.unpack(round_messages.Join, body)
        if self._run.phase is Phase.RUNNING and not node.over:
            self._joins[node.number] = join
            self._handle(events.NodeReady(node.number))

    def _probe(self, first: int, nodes: Sequence[RunNode]) -> None:
        addresses = self._master.addresses(self._run.nodes[first])
        probe = messages.Probe(addresses, self._joins[first].probe)
        self._run.send(nodes, messages.pack(frames.PROBE, probe))

    def _on_probed(self, node: RunNode, body: bytes) -> None:
        if not self._run.started:
            self._run.startup.on_probed(node, body)
            return
        verdicts = messages.unpack(messages.Probed, body).verdicts
        try:
            self._handle(events.NodeReached(node.number, verdicts))
        except ValueError as error:
            raise frames.BadFrame(str(error)) from None

    def _form(self, nodes: Sequence[RunNode], address: str, restarts: int) -> None:
        first, run = nodes[0], self._run
        self._health.began(nodes)
        self._show_round(assigned(self._plan, nodes))
        if run.shards:
            run.shards.new_round(self._rounds.generation)
        master = self._master.alone(first) if len(nodes) == 1 else address
        port = self._joins[first.number].port
        start = run.start_message(first.node, master, port)._replace(
            generation=self._rounds.generation,
            restarts=restarts,
            max_restarts=self._limits.restarts,
        )
        frames_of = round_frames(start, [node.node for node in nodes])
        for node, frame in zip(nodes, frames_of, strict=True):
            node.begin(frame)
        if run.observers:
            run.observers.round(start.generation, start, [node.name for node in nodes])

    def _show_round(self, plan: Plan) -> None:
        """Show who is in the round, and forget how workers of former ones have ended."""
        self._run.begin_round()
        self._run.label(plan)
        hosts = some_of([node.host.name for node in plan.nodes])
        level = "info" if self._rounds.generation > 1 else "debug"
        size = counted(plan.world_size or 0, "worker")
        self._run.log(f"next round: {size} on {hosts}", level)

    def _on_output(self, node: RunNode, body: bytes) -> None:
        """Print output; the first of a round shows that its workers have started well."""
        self._run.output.on_output(node, body)
        if self._rounds.starting and self._run.workers.runs(node, frames.unpack_output(body)[0]):
            self._handle(events.WorkerPrinted())

    def _release(self, node: RunNode) -> None:
        self._run.warn(f"removing {node.name} from the job")
        stop = messages.Stop(signal.SIGTERM, self._run.grace)
        self._run.staged.drop(node)
        node.send(messages.pack(frames.STOP, stop))

    def _give_up(self, node: RunNode, reason: str, *, for_good: bool) -> None:
        """Close a node's connection: without one it ends its workers itself."""
        silent = self._loop.clock() - (node.connection.heard() or self._loop.clock())
        self.await_end(node, BEYOND * self._run.lease - silent)
        node.connection.close(reason)
        self._run.lose(node, reason)
        if for_good:
            self._admission.drop(node)

    def _too_few(self) -> None:
        if self._run.phase is Phase.RUNNING:
            # Of workers of a former round: nobody has worked since.
            self._run.record.forget_exits()
            self._run.record.gave_up(TOO_FEW, self._loop.clock())
            self._run.stop(signal.SIGTERM)

    # -- failures and losses ----------------------------------------------------------------

    def on_failure(self, node: RunNode, ended: messages.Exit) -> bool:
        """Survive the failure of a worker with another round, or end the run.

        Returns:
            False where there is no round that could follow.
        """
        if self._run.phase is not Phase.RUNNING:
            return False
        code = as_shell(ended.code)
        how = f"exited {code}" if ended.code > 0 else f"was killed by signal {-ended.code}"
        what = f"rank {ended.rank} on {node.name} {how}"
        final = self._filter.refusal(node.name, ended) if self._filter else ""
        if not self._decide(events.WorkerFailed(what, code, node.number, bool(final))):
            if final:
                self._run.warn(f"no restart: {what}; {final}")
            self._run.record.exited(node, ended)
        self._actions.run()
        return True

    def restart(self, why: str) -> bool:
        """Form another round of the same nodes for this reason, if there is a restart left."""
        return self._handle(events.RestartRequested(why, NO_PROGRESS))

    def _on_agent_failure(self, node: RunNode, body: bytes) -> None:
        self._run.check_started()
        failure = messages.unpack(round_messages.AgentFailure, body)
        self.await_end(node, BEYOND * self._run.lease)
        self._run.lose(node, failure.reason, over=False)
        if failure.unusable:
            self._admission.drop(node)
            if self._run.phase is Phase.STOPPING and not self._rounds.generation:
                self._run.error = NodeError(f"{node.name}: {failure.reason}")

    def survives(self, node: RunNode) -> bool:
        """Return whether the run goes on without a node that is lost."""
        if self._run.phase is Phase.STOPPING:
            return self._rounds.over
        return self._rounds.survives(node.number)

    def on_loss(self, node: RunNode) -> None:
        """Form another round without a lost node, and reach it again."""
        if self._run.phase is not Phase.STOPPING:
            self._handle(events.NodeLost(node.number))
        if self._rounds.over:
            self._run.end_when_over()
        else:
            self._admission.membership.lost(node)

    def await_end(self, node: RunNode, seconds: float) -> None:
        """Form no other round before the workers of this node have ended.

        Its guard may have said so already.
        """
        if not node.cleaned_up:
            self._handle(events.NodeVanishing(node.number, seconds))

    def outlives_engine(self) -> bool:
        """Return whether all that the engine had started is lost or done already."""
        return self._admission.only

    # -- nodes that come --------------------------------------------------------------------

    def on_hello(self, node: RunNode, hello: Hello) -> None:
        """Accept a node that has come, or come back, if it fits those that are there."""
        self._admission.on_hello(node, hello)

    def on_node_end(self, node: RunNode, cause: str) -> None:
        """Handle the end of a session, which may have been an attempt to reach a node again."""
        if node.cleaned_up:
            self._handle(events.WorkersGone(node.number))
        self._admission.on_node_end(node, cause)

    def resize(self, nodes: int) -> str:
        """Form rounds of at most so many nodes from now on; return what to tell the user.

        Raises:
            UsageError: the job's limits do not allow it.
        """
        least, most = self._limits.least, self._limits.most
        if not least <= nodes <= most:
            raise UsageError(f"this job takes {least} to {most} nodes, not {nodes}")
        present = sum(not node.over for node in self._run.nodes)
        self._run.warn(f"resizing to {counted(nodes, 'node')}, as dsrun-job asks")
        self._handle(events.SizeLimited(nodes))
        more = f"; there are {present} now" if present < nodes else ""
        return f"rounds of at most {counted(nodes, 'node')} from now on{more}"

    def list_hosts(self, hosts: Sequence[Host]) -> bool:
        """Use these hosts and no others: reach new ones, and release the others.

        Returns:
            False where it is not the time for that, before the start.
        """
        if self._run.phase is not Phase.RUNNING:
            return False
        self._admission.membership.take(hosts)
        return True

    def replace(self, lost: str, host: Host) -> None:
        """Have this host in later rounds in place of a node that is lost."""
        self._admission.membership.replace(lost, host)

    def on_unreached(self, call: Callable[[RunNode], None]) -> None:
        """Have a function called with each node that could not be reached again."""
        self._admission.on_unreached = call

    # -- the end ----------------------------------------------------------------------------

    def _on_finished(self, node: RunNode, body: bytes) -> None:
        self._run.check_started()
        finished = messages.unpack(round_messages.Finished, body)
        self._handle(events.NodeFinished(node.number, finished.generation))

    def on_done(self, node: RunNode) -> bool:
        """Handle a node that has ended by itself, or that was released or lost; return True."""
        self._handle(events.WorkersGone(node.number))
        if node.lost:
            return True
        was_leaving = self._rounds.is_leaving(node.number)
        if not self._handle(events.NodeDone(node.number)):
            self._run.record.lost(node.name, ENDED_EARLY, self._loop.clock())
            self._run.stop(signal.SIGTERM)
        if was_leaving:
            self._admission.membership.gone(node)
        return True

    def close(self) -> None:
        """Form no other round, and reach no node any more."""
        self._handle(events.JobStopped())
        self._admission.close()
        while self._closers:
            self._closers.pop()()


def runner_rounds(run: Run, limits: ElasticPolicy) -> RunnerRounds:
    """Return the restart policy of an elastic run, connected with its list of hosts."""
    rounds, updates = RunnerRounds(run, limits), run.spec.updates
    if updates is not None:
        from . import host_watch

        watch = host_watch.of(updates, run.loop, rounds.list_hosts, run.warn)
        rounds.close_too(watch.close)
    return rounds


def _filter(run: Run, limits: ElasticPolicy) -> RestartFilter | None:
    """Return what decides which failures are worth a restart; None if all are."""
    if not limits.restart_on:
        return None
    from .restart_filter import RestartFilter

    found = RestartFilter(limits.restart_on)
    run.observe(found.on_event)
    return found
