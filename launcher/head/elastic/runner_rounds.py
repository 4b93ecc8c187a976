"""The runner's own rounds: a restart policy that survives failures and losses, within limits."""

from __future__ import annotations

import signal

from ...common.errors import DsrunError, NodeError
from ...common.exit_codes import as_shell
from ...common.wording import counted
from ...control import frames, messages
from ...specs.plan import Node
from ..fleet.unreached import NO_MESSAGE, UnreachedNodes
from ..run import checks
from ..run.phase import Phase
from ..run.run_node import assigned
from .master_addresses import MasterAddresses
from .membership import NEW, Membership
from .reconnector import Reconnector
from .round_actions import Change, Form, GiveUp, Notify, Release, Say, TooFew
from .rounds import Rounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...specs.elastic_policy import ElasticPolicy
    from ...specs.host import Host
    from ...specs.plan import Plan
    from ..run.run import Run
    from ..run.run_node import RunNode
    from .round_actions import RoundAction

ENDED_EARLY = "its workers ended while others restart, and too few nodes are left"

TOO_FEW = "too few nodes for too long (--min_wait)"

SPARES = 4
"""Nodes that are taken in beyond the most that a round may have, of hosts that are added."""

SETTLE = 1.0
"""Seconds from a failure that would end the job until it does: the loss of a node, which others'
workers often feel first, is known by then."""

ISOLATED = 1 / 8
"""Of the time after which a node is missed, what the next round waits for beyond it. A node that is
cut off stops its workers after 15/16 of that time, with 1/16 for their grace."""


class RunnerRounds:
    """Forms rounds of the nodes that are there, reaches lost ones again, and takes in new ones."""

    def __init__(self, run: Run, limits: ElasticPolicy) -> None:
        """Decide for a run, of all whose nodes `limits.least` are enough."""
        self.least: int | None = limits.least
        self.handlers = {frames.JOIN: self._on_join, frames.AGENT_FAILED: self._on_agent_failure}
        self._run, self._limits, self._loop = run, limits, run.loop
        count = len(run.nodes)
        self._rounds = Rounds(count, limits, run.loop, self._act, self._fits, self._name)
        self._reconnector = Reconnector(run.loop, self._reach, self._room, self._newcomer)
        self._membership = Membership(
            run.nodes, self._rounds, self._reconnector, self._add, run.warn
        )
        self._unreached = UnreachedNodes(run.loop, lambda text: run.warn(f"{text}; trying again"))
        self._reached: set[RunNode] = set()
        self._master = MasterAddresses(run)
        self._closers: list[Callable[[], None]] = []

    def close_too(self, close: Callable[[], None]) -> None:
        """Call `close` when no round is formed any more."""
        self._closers.append(close)

    # -- the start --------------------------------------------------------------------------

    def on_start(self) -> None:
        """Have lost nodes looked for; the first round is formed when the others are ready."""
        self._plan = self._run.plan
        self._master.on_start()
        for node in self._run.nodes:
            if node.lost:
                self._rounds.left(node.number)
                self._reconnector.expect(node)

    def world_size(self, planned: int) -> int:
        """Return the number of workers of the newest round."""
        return planned

    # -- rounds -----------------------------------------------------------------------------

    def _act(self, action: RoundAction) -> None:
        match action:
            case Form(members, restarts):
                self._form(members, restarts)
            case Change(numbers):
                self._run.send(self._nodes(numbers), frames.pack(frames.CHANGE))
            case Notify(numbers):
                self._run.warn(f"the nodes of the job will change in {self._limits.notice:g} s")
                self._run.send(self._nodes(numbers), frames.pack(frames.NOTICE))
            case Release(number):
                self._release(self._run.nodes[number])
            case GiveUp(number, reason):
                self._give_up(self._run.nodes[number], reason)
            case TooFew():
                self._too_few()
            case Say(text):
                self._run.warn(text)

    def _nodes(self, numbers: Sequence[int]) -> list[RunNode]:
        return [self._run.nodes[number] for number in numbers]

    def _name(self, number: int) -> str:
        return self._run.nodes[number].name

    def _fits(self, numbers: Sequence[int]) -> bool:
        size = sum(len(node.node.host.slots or ()) for node in self._nodes(numbers))
        return not checks.misfit(size, self._run.spec.batches)

    def _on_join(self, node: RunNode, body: bytes) -> None:
        self._run.check_started()
        port = messages.unpack(messages.Join, body).port
        if self._run.phase is Phase.RUNNING and not node.over:
            self._rounds.joined(node.number, port)

    def _form(self, numbers: Sequence[int], restarts: int) -> None:
        nodes, run = self._nodes(numbers), self._run
        self._show_round(assigned(self._plan, nodes))
        run.shards.new_round(self._rounds.generation)
        address, *rest = self._master.addresses(nodes)
        port = self._rounds.port(numbers[0])
        for node in nodes:
            start = run.start_message(node.node, address, port)._replace(
                otherwise=tuple(rest),
                generation=self._rounds.generation,
                restarts=restarts,
                max_restarts=self._limits.restarts,
            )
            node.send(messages.pack(frames.ROUND, start))

    def _show_round(self, plan: Plan) -> None:
        """Say who is in the round, and forget how workers of former ones have ended."""
        self._run.begin_round()
        self._run.label(plan)
        hosts = ", ".join(node.host.name for node in plan.nodes)
        level = "info" if self._rounds.generation > 1 else "debug"
        size = counted(plan.world_size or 0, "worker")
        self._run.log(f"next round: {size} on {hosts}", level)

    def _release(self, node: RunNode) -> None:
        self._run.warn(f"{node.name} is taken out")
        self._stop_node(node, self._run.grace)

    def _stop_node(self, node: RunNode, grace: float) -> None:
        node.send(messages.pack(frames.STOP, messages.Stop(signal.SIGTERM, grace)))

    def _give_up(self, node: RunNode, reason: str) -> None:
        """Close its connection: without one it ends its workers itself."""
        node.connection.close(reason)
        self._run.lose(node, reason)

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
        if not self._rounds.failed(what, code, node.number):
            self._end_for(node, ended)

    def _end_for(self, node: RunNode, ended: messages.Exit) -> None:
        """End the run for a failure, unless it turns out to be the loss of a node."""
        if not self._rounds.may_be_loss():
            self._run.fail(node, ended)
            return
        generation = self._rounds.generation
        self._rounds.hold(SETTLE)

        def settle() -> None:
            if self._run.phase is not Phase.RUNNING or not self._rounds.shrunk(generation):
                self._run.fail(node, ended)

        self._loop.call_later(SETTLE, settle)

    def survives(self, node: RunNode) -> bool:
        """Return whether the run goes on without a node that is lost."""
        return self._rounds.left(node.number)

    def on_loss(self, node: RunNode) -> None:
        """Have a lost node looked for, which the run goes on without."""
        self._membership.lost(node)

    def on_silence(self, node: RunNode) -> None:
        """Give workers of a silent node the time to end before others have their ranks."""
        if node.number in self._rounds.members:
            self._rounds.hold(self._run.lease * ISOLATED)

    def outlives_engine(self) -> bool:
        """Return whether all that the engine had started is lost or done already."""
        return all(node.over for node in self._run.nodes if node not in self._reached)

    # -- nodes that come --------------------------------------------------------------------

    def _on_agent_failure(self, node: RunNode, body: bytes) -> None:
        self._run.check_started()
        failure = messages.unpack(messages.AgentFailure, body)
        self._run.lose(node, failure.reason, over=False)
        if failure.unusable:
            self._reconnector.drop(node)
            if self._run.phase is Phase.STOPPING and not self._rounds.generation:
                self._run.error = NodeError(f"{node.name}: {failure.reason}")

    def on_node_end(self, node: RunNode, cause: str) -> None:
        """Act on the end of a session, which may have been an attempt to reach a node again."""
        if node.lost and node.hello is None:
            if node.lost == NEW:
                node.lost = cause or NO_MESSAGE
                self._unreached.add(node.name, node.lost)
            self._reconnector.failed(node)

    def _room(self) -> int:
        return self._limits.most + SPARES - self._rounds.there

    def _newcomer(self) -> RunNode | None:
        return self._membership.next()

    def _reach(self, node: RunNode) -> None:
        node.forget()
        self._reached.add(node)
        self._run.fleet.reach(node.connection)

    def on_hello(self, node: RunNode, hello: messages.Hello) -> None:
        """Take in a node that has come, or come back, if it can be with those that are there."""
        problems = self._problems(node, hello)
        if problems and node.lost != problems[0]:
            node.lost = problems[0]
            self._run.warn(f"cannot take {node.name} in: {node.lost}")
        running = self._run.phase is Phase.RUNNING
        if problems or not running or not self._rounds.came(node.number):
            node.connection.close(node.lost)
            self._reconnector.failed(node)
            return
        word = "here" if node.lost == NEW else "back"
        self._run.warn(f"{node.name} is {word}")
        self._take_in(node, hello)

    def _problems(self, node: RunNode, hello: messages.Hello) -> list[str]:
        """Return why a node cannot be with those that are there."""
        there = [one for one in self._run.nodes if one.hello and not one.over]
        hellos = {one.connection.number: one.hello for one in there if one.hello}
        nodes = [one.connection.origin for one in (*there, node)]
        return checks.problems(nodes, {**hellos, node.connection.number: hello})

    def _take_in(self, node: RunNode, hello: messages.Hello) -> None:
        host = node.node.host
        if host.slots is None:
            host = host._replace(slots=tuple(range(hello.slots)))
        node.node = Node(node.node.rank, host, 0, host.slots)
        node.hello, node.lost = hello, ""
        self._run.fleet.expect_beats(node.connection)
        self._reconnector.back(node)
        node.send(messages.pack(frames.START, self._run.start_message(node.node, "", 0)))
        self._membership.retire()

    # -- growing and shrinking --------------------------------------------------------------

    def resize(self, nodes: int) -> str:
        """Form rounds of at most so many nodes from now on; return what there is to say of it.

        Raises:
            DsrunError: the job's limits do not allow it.
        """
        least, most = self._limits.least, self._limits.most
        if not least <= nodes <= most:
            raise DsrunError(f"this job takes {least} to {most} nodes, not {nodes}")
        there = sum(not node.over for node in self._run.nodes)
        self._run.warn(f"asked for {counted(nodes, 'node')}")
        self._rounds.resize(nodes)
        more = f"; there are {there} now" if there < nodes else ""
        return f"rounds of at most {counted(nodes, 'node')} from now on{more}"

    def list_hosts(self, hosts: Sequence[Host]) -> bool:
        """Let these hosts take part and no others: new ones are reached, others are let go.

        Returns:
            False where it is not the time for that, before the start.
        """
        if self._run.phase is not Phase.RUNNING:
            return False
        self._membership.take(hosts)
        return True

    def _add(self, host: Host) -> RunNode:
        return self._run.add(host)

    # -- the end ----------------------------------------------------------------------------

    def on_done(self, node: RunNode) -> None:
        """Act on a node whose workers have all ended well, or that was let go."""
        was_leaving = self._rounds.is_leaving(node.number)
        if not self._rounds.done(node.number):
            self._run.record.lost(node.name, ENDED_EARLY, self._loop.clock())
            self._run.stop(signal.SIGTERM)
        for spare in self._idle():
            self._stop_node(spare, 0)
        if was_leaving:
            self._membership.gone(node)

    def _idle(self) -> list[RunNode]:
        """Return the spares that nobody will need any more: all members are done."""
        members = self._nodes(self._rounds.members)
        if not members or any(not one.over for one in members):
            return []
        return [node for node in self._run.nodes if not node.over]

    def close(self) -> None:
        """Form no other round, and look for nobody any more."""
        self._rounds.close()
        self._reconnector.close()
        while self._closers:
            self._closers.pop()()
