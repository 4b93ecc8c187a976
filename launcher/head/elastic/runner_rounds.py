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
from ..run.run_node import assigned
from .arrivals import Arrivals
from .master_addresses import MasterAddresses
from .node_table import RunNodes
from .round_actions import (
    Change,
    Finish,
    Form,
    GiveUp,
    Notify,
    Probe,
    Release,
    Say,
    TooFew,
)
from .round_frames import round_frames
from .round_health import RoundHealth
from .rounds import Rounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...control.messages import Hello
    from ...control.round_messages import Join
    from ...specs.elastic_policy import ElasticPolicy
    from ...specs.host import Host
    from ...specs.plan import Plan
    from ..run.run import Run
    from ..run.run_node import RunNode
    from .round_actions import RoundAction
    from .worth import Worth

ENDED_EARLY = "its workers ended while others restart, and too few nodes are left"

TOO_FEW = "too few nodes for too long (--min_wait)"

SETTLE = 1.0
"""Seconds from a failure that would end the job until it does: the loss of a node, which others'
workers often notice first, is known by then."""

ISOLATED = 1 / 8
"""Of the time after which a silent node is lost, what the next round waits for beyond it. A node
that is cut off stops its workers after 15/16 of that time, with 1/16 for their grace."""

CUT_OFF = 1 / 8
"""Of that time, for how long a node is silent that may not hear of the end of its connection."""


class RunnerRounds:
    """Forms rounds of the nodes that are there, and replaces those that are lost."""

    def __init__(self, run: Run, limits: ElasticPolicy) -> None:
        """Decide for a run, of all whose nodes `limits.least` are enough."""
        self.least: int | None = limits.least
        self.handlers = {
            frames.JOIN: self._on_join,
            frames.PROBED: self._on_probed,
            frames.FINISHED: self._on_finished,
            frames.AGENT_FAILED: self._on_agent_failure,
            frames.OUTPUT: self._on_output,
        }
        self._run, self._limits, self._loop = run, limits, run.loop
        self._master = MasterAddresses(run)
        give_up = partial(self._give_up, for_good=False)
        self._health = RoundHealth(run, give_up, self._look)
        table = RunNodes(run, self._master, self._health)
        self._rounds = Rounds(len(run.nodes), limits, run.loop, self._act, table)
        self._arrivals = Arrivals(run, self._rounds, limits.most)
        self._joins: dict[int, Join] = {}
        self._closers: list[Callable[[], None]] = []
        self._worth = _worth(run, limits)

    def close_too(self, close: Callable[[], None]) -> None:
        """Call `close` when no round is formed any more."""
        self._closers.append(close)

    # -- the start --------------------------------------------------------------------------

    def on_start(self) -> None:
        """Reach lost nodes again; the first round is formed when the others are ready."""
        self._plan = self._run.plan
        self._master.on_start()
        self._note_addresses()
        for node in self._run.nodes:
            if node.lost:
                self._rounds.left(node.number)
                self._arrivals.expect(node)

    def _note_addresses(self) -> None:
        """Note which nodes have reached the first one at the start, and which owe an answer."""
        first, points = self._run.staged.first, self._rounds.meeting.points
        probed = first.hello is not None and first.hello.port is not None
        for node in self._run.nodes:
            points.owes(node.number, self._run.startup.probes[node])
            if probed and node is not first and not node.over:
                points.verified(first.number, node.number, self._run.master)

    def world_size(self, planned: int) -> int:
        """Return the number of workers of the newest round."""
        return planned

    # -- rounds -----------------------------------------------------------------------------

    def _act(self, action: RoundAction) -> None:
        match action:
            case Probe(first, numbers):
                self._probe(first, self._nodes(numbers))
            case Form(numbers, address, restarts):
                self._form(self._nodes(numbers), address, restarts)
            case Change(numbers):
                self._run.send(self._nodes(numbers), frames.pack(frames.CHANGE))
            case Notify(numbers):
                self._run.warn(f"the nodes of the job will change in {self._limits.notice:g} s")
                self._run.send(self._nodes(numbers), frames.pack(frames.NOTICE))
            case Release(number):
                self._release(self._run.nodes[number])
            case GiveUp(number, reason, for_good):
                self._give_up(self._run.nodes[number], reason, for_good=for_good)
            case TooFew():
                self._too_few()
            case Finish():
                self._run.stop(signal.SIGTERM, 0)
            case Say(text):
                self._run.warn(text)

    def _look(self) -> None:
        self._rounds.look()

    def _nodes(self, numbers: Iterable[int]) -> list[RunNode]:
        return [self._run.nodes[number] for number in numbers]

    def _on_join(self, node: RunNode, body: bytes) -> None:
        self._run.check_started()
        join = messages.unpack(round_messages.Join, body)
        if self._run.phase is Phase.RUNNING and not node.over:
            self._joins[node.number] = join
            self._rounds.joined(node.number)

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
            complete = self._rounds.meeting.points.answered(node.number, verdicts)
        except ValueError as error:
            raise frames.BadFrame(str(error)) from None
        if complete:
            self._rounds.look()

    def _form(self, nodes: Sequence[RunNode], address: str, restarts: int) -> None:
        first, run = nodes[0], self._run
        self._health.began(nodes)
        self._show_round(assigned(self._plan, nodes))
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
        if self._rounds.gain.left and self._run.workers.runs(node, frames.unpack_output(body)[0]):
            self._rounds.gain.end()

    def _release(self, node: RunNode) -> None:
        self._run.warn(f"removing {node.name} from the job")
        stop = messages.Stop(signal.SIGTERM, self._run.grace)
        node.send(messages.pack(frames.STOP, stop))

    def _give_up(self, node: RunNode, reason: str, *, for_good: bool) -> None:
        """Close a node's connection: without one it ends its workers itself."""
        silent = self._loop.clock() - (node.connection.heard() or self._loop.clock())
        if silent > CUT_OFF * self._run.lease and node.number in self._rounds.members:
            self._rounds.hold((1 + ISOLATED) * self._run.lease - silent)
        node.connection.close(reason)
        self._run.lose(node, reason)
        if for_good:
            self._arrivals.drop(node)

    def _too_few(self) -> None:
        if self._run.phase is Phase.RUNNING:
            # Of workers of a former round: nobody has worked since.
            self._run.record.forget_exits()
            self._run.record.gave_up(TOO_FEW, self._loop.clock())
            self._run.stop(signal.SIGTERM)

    # -- failures and losses ----------------------------------------------------------------

    def on_failure(self, node: RunNode, ended: messages.Exit) -> None:
        """Survive the failure of a worker with another round, or end the run."""
        if self._run.phase is not Phase.RUNNING:
            self._run.fail(node, ended)
            return
        code = as_shell(ended.code)
        how = f"exited {code}" if ended.code > 0 else f"was killed by signal {-ended.code}"
        what = f"rank {ended.rank} on {node.name} {how}"
        final = self._worth.refusal(node.name, ended) if self._worth else ""
        if not self._rounds.failed(what, code, node.number, final=bool(final)):
            if final:
                self._run.warn(f"no restart: {what}; {final}")
            self._end_for(node, ended)

    def _end_for(self, node: RunNode, ended: messages.Exit) -> None:
        """End the run for a failure, unless it turns out to be the loss of a node."""
        record = self._run.record
        record.exited(node, ended)

        def decided(lost: bool) -> None:
            if lost:
                record.forget_exits()
            else:
                self._run.stop(signal.SIGTERM)

        self._rounds.decide(SETTLE, decided)

    def restart(self, why: str) -> bool:
        """Form another round of the same nodes for this reason, if there is a restart left."""
        return self._rounds.failed(why, NO_PROGRESS, None)

    def _on_agent_failure(self, node: RunNode, body: bytes) -> None:
        self._run.check_started()
        failure = messages.unpack(round_messages.AgentFailure, body)
        self._run.lose(node, failure.reason, over=False)
        if failure.unusable:
            self._arrivals.drop(node)
            if self._run.phase is Phase.STOPPING and not self._rounds.generation:
                self._run.error = NodeError(f"{node.name}: {failure.reason}")

    def survives(self, node: RunNode) -> bool:
        """Return whether the run goes on without a node that is lost."""
        if self._run.phase is Phase.STOPPING:
            return self._rounds.over
        return self._rounds.left(node.number)

    def on_loss(self, node: RunNode) -> None:
        """Reach a lost node again, which the run goes on without."""
        if self._rounds.over:
            self._run.end_when_over()
        else:
            self._arrivals.membership.lost(node)

    def on_silence(self, node: RunNode) -> None:
        """Give workers of a silent node the time to end before others have their ranks."""
        if node.number in self._rounds.members:
            self._rounds.hold(self._run.lease * ISOLATED)

    def outlives_engine(self) -> bool:
        """Return whether all that the engine had started is lost or done already."""
        return self._arrivals.only

    # -- nodes that come --------------------------------------------------------------------

    def on_hello(self, node: RunNode, hello: Hello) -> None:
        """Accept a node that has come, or come back, if it fits those that are there."""
        self._arrivals.on_hello(node, hello)

    def on_node_end(self, node: RunNode, cause: str) -> None:
        """Handle the end of a session, which may have been an attempt to reach a node again."""
        self._arrivals.on_node_end(node, cause)

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
        self._rounds.resize(nodes)
        more = f"; there are {present} now" if present < nodes else ""
        return f"rounds of at most {counted(nodes, 'node')} from now on{more}"

    def list_hosts(self, hosts: Sequence[Host]) -> bool:
        """Use these hosts and no others: reach new ones, and release the others.

        Returns:
            False where it is not the time for that, before the start.
        """
        if self._run.phase is not Phase.RUNNING:
            return False
        self._arrivals.membership.take(hosts)
        return True

    # -- the end ----------------------------------------------------------------------------

    def _on_finished(self, node: RunNode, body: bytes) -> None:
        self._run.check_started()
        self._rounds.finished(
            node.number, messages.unpack(round_messages.Finished, body).generation
        )

    def on_done(self, node: RunNode) -> None:
        """Handle a node that has ended by itself, or that was released."""
        was_leaving = self._rounds.is_leaving(node.number)
        if not self._rounds.done(node.number):
            self._run.record.lost(node.name, ENDED_EARLY, self._loop.clock())
            self._run.stop(signal.SIGTERM)
        if was_leaving:
            self._arrivals.membership.gone(node)

    def close(self) -> None:
        """Form no other round, and reach no node any more."""
        self._rounds.close()
        self._arrivals.close()
        while self._closers:
            self._closers.pop()()


def _worth(run: Run, limits: ElasticPolicy) -> Worth | None:
    """Return what decides which failures are worth a restart; None if all are."""
    if not limits.restart_on:
        return None
    from .worth import Worth

    return Worth(run, limits.restart_on)
