"""An elastic job: rounds over the nodes' lines in place of one start, until one ends well."""

from __future__ import annotations

import signal

from ...common.errors import DsrunError, NodeError
from ...common.exit_codes import as_shell
from ...common.values import NamedTuple
from ...common.wording import counted
from ...control import frames, messages
from ...specs.plan import Node
from ..fleet import checks
from ..fleet.checks import LOOPBACK
from ..fleet.node_connection import Peer, seated
from ..run.job import Job
from .membership import NEW, Roster
from .reconnector import Returns
from .rounds import Calls, Rounds
from .unreached import WORDLESS, Unreached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ...backends.base import Dial, Part
    from ...specs.elastic_policy import Limits
    from ...specs.host import Host
    from ...specs.plan import Plan
    from ..report.report import Report

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


class Elastic(NamedTuple):
    """What an elastic job has beside a Job's.

    Attributes:
        limits: how far it may shrink, grow and fail.
        part: the backend that reaches a node which was not among the first.
    """

    limits: Limits
    part: Callable[[Node], Part]


class ElasticJob(Job):
    """A job that survives failures and losses, within limits."""

    def __init__(self, elastic: Elastic, *args: Any) -> None:
        """Prepare it; what follows the first is a Job's."""
        super().__init__(*args)
        self._limits, self._part = elastic
        self._rounds = Rounds(len(self.peers), self._limits, self._calls(), self._loop)
        self._returns = Returns(self._loop, self._reach_again, self._room, self._newcomer)
        self._roster = Roster(self.peers, self._rounds, self._returns, self._add, self._warn)
        self._unreached = Unreached(self._loop, lambda text: self._warn(f"{text}; trying again"))
        self._reached: set[Peer] = set()
        self._whole = self._plan
        self._probed, self._by_address = "", False
        self._reach: Callable[[Node], None] = lambda _node: None

    def _calls(self) -> Calls:
        return Calls(
            form=self._form,
            change=lambda numbers: self._send(numbers, frames.CHANGE),
            notice=self._notice,
            release=self._let_go,
            lose=self._cut,
            short=self._too_few,
            fits=self._fits,
            name=lambda number: self.peers[number].name,
            say=self._warn,
        )

    def _warn(self, text: str) -> None:
        self._console.say(text, "warning")

    def run(
        self, parts: Sequence[Part], dial: Dial | None, on_token: Callable[[str, str], None]
    ) -> Report:
        """Run it; see Job."""
        reports = self._reports(on_token)
        known = list(parts)
        backends = {node.rank: backend for backend, nodes in parts for node in nodes}

        def reach(node: Node) -> None:
            if node.rank not in backends:
                part = self._part(node)
                backends[node.rank] = part.backend
                if all(part.backend is not one.backend for one in known):
                    known.append(part)
            backend = backends[node.rank]
            if dial is not None and backend.transport == "dial":
                dial.again(node.rank)
            backend.start([node], self._loop, reports, dial)

        self._reach = reach
        return super().run(known, dial, on_token)

    def on_session_end(self, rank: int, cause: str) -> None:
        """Take in the end of a session, which may have been an attempt to have a node back."""
        super().on_session_end(rank, cause)
        peer = self.peers[rank]
        if self._running and peer.lost and peer.hello is None:
            if peer.lost == NEW:
                peer.lost = cause or WORDLESS
                self._unreached.add(peer.name, peer.lost)
            self._returns.failed(peer)

    def _handlers(self, peer: Peer) -> dict[int, Callable[[bytes], None]]:
        return {
            **super()._handlers(peer),
            frames.HELLO: lambda body: self._on_hello(peer, body),
            frames.JOIN: lambda body: self._on_join(peer, body),
            frames.LEFT: lambda body: self._on_left(peer, body),
        }

    # -- rounds -----------------------------------------------------------------------------

    def _start(self, plan: Plan, master: str, port: int) -> None:
        self._whole, self._probed = plan, master
        super()._start(plan, master, port)
        hello = self._first.hello
        self._by_address = hello is not None and master in hello.addresses
        for peer in self.peers:
            if peer.lost:
                self._rounds.left(peer.number)
                self._returns.expect(peer)

    def _on_join(self, peer: Peer, body: bytes) -> None:
        self._must_run()
        port = messages.unpack(messages.Join, body).port
        if not self._stopping and not peer.over:
            self._rounds.joined(peer.number, port)

    def _send(self, numbers: Sequence[int], kind: int, body: bytes = b"") -> None:
        for number in numbers:
            self.peers[number].send(frames.pack(kind, body))

    def _notice(self, numbers: list[int]) -> None:
        self._warn(f"the nodes of the job will change in {self._limits.notice:g} s")
        self._send(numbers, frames.NOTICE)

    def _fits(self, numbers: list[int]) -> bool:
        size = sum(len(self.peers[number].node.host.slots or ()) for number in numbers)
        return not checks.misfit(size, self._rules.batches)

    def _form(self, numbers: list[int], restarts: int) -> None:
        peers = [self.peers[number] for number in numbers]
        self._tell(seated(self._whole, peers))
        self._shards.new_round(self._rounds.generation)
        (address, *rest), port = self._meeting_places(peers), self._rounds.port(numbers[0])
        for peer in peers:
            order = self._order(peer.node, address, port)._replace(
                otherwise=tuple(rest),
                generation=self._rounds.generation,
                restarts=restarts,
                max_restarts=self._limits.restarts,
            )
            peer.send(messages.pack(frames.ROUND, order))

    def _tell(self, plan: Plan) -> None:
        """Say who is in the round, and forget how workers of former ones have ended."""
        self._account.forget_exits()
        self._workers.begin_again()
        self._label(plan)
        hosts = ", ".join(node.host.name for node in plan.nodes)
        level = "info" if self._rounds.generation > 1 else "debug"
        size = counted(plan.world_size or 0, "worker")
        self._console.say(f"next round: {size} on {hosts}", level)

    def _meeting_places(self, peers: Sequence[Peer]) -> list[str]:
        """Return where the others may reach the first node, the likeliest place first.

        What was tried out at the start comes first, then what is of its kind: names that only ssh
        knows are no good between nodes.
        """
        first, alone = peers[0], len(peers) == 1
        assert first.hello is not None
        places = checks.master_candidates(first.node, first.hello, None, alone=False)
        addresses = first.hello.addresses if self._by_address else ()
        known = sorted(places, key=lambda place: bool(addresses) and place not in addresses)
        if first is not self._first or (self._probed == LOOPBACK and not alone):
            return known
        given = alone or self._whole.master_addr
        return [self._probed] if given else list(dict.fromkeys([self._probed, *known]))

    # -- failures and losses ----------------------------------------------------------------

    def _exited(self, peer: Peer, ended: messages.Exit) -> None:
        if self._stopping or not ended.failed:
            super()._exited(peer, ended)
        elif not self._is_survived(peer, ended):
            self._end_for(peer, ended)

    def _is_survived(self, peer: Peer, ended: messages.Exit) -> bool:
        code, number = as_shell(ended.code), peer.number
        how = f"exited {code}" if ended.code > 0 else f"was killed by signal {-ended.code}"
        return self._rounds.failed(f"rank {ended.rank} on {peer.name} {how}", code, number)

    def _end_for(self, peer: Peer, ended: messages.Exit) -> None:
        """End the job for a failure, unless it turns out to be the loss of a node."""
        if not self._rounds.may_be_loss():
            super()._exited(peer, ended)
            return
        generation = self._rounds.generation
        self._rounds.hold(SETTLE)

        def settle() -> None:
            if self._stopping or not self._rounds.shrunk(generation):
                super(ElasticJob, self)._exited(peer, ended)

        self._loop.after(SETTLE, settle)

    def _lose(self, peer: Peer, reason: str, *, over: bool = True, explained: bool = True) -> None:
        if peer.over:
            return
        if self._stopping or not self._rounds.left(peer.number):
            super()._lose(peer, reason, over=over, explained=explained)
            return
        peer.lost = reason
        self._shards.lost(peer)
        self._doubt(peer)
        self._console.say(f"lost {peer.name}: {reason}; going on without it", "warning")
        if peer.left and explained:
            self._console.say(peer.left, "warning")
        self._roster.lost(peer)

    def _miss(self, peer: Peer) -> None:
        """Lose a silent node; its workers have the time to end before others have their ranks."""
        if not peer.over and peer.number in self._rounds.members:
            self._rounds.hold(self._rules.lease * ISOLATED)
        super()._miss(peer)

    def _cut(self, number: int, reason: str) -> None:
        """Have nothing more to do with a node: without its line it ends its workers itself."""
        peer = self.peers[number]
        peer.hang_up()
        self._lose(peer, reason)

    def _on_broken(self, cause: str, code: int, killed: bool) -> None:
        """End with the engine, unless all that it had started is lost or done already."""
        first = [peer for peer in self.peers if peer not in self._reached]
        if self._running and all(peer.over for peer in first):
            self._console.say(cause, "debug")
        else:
            super()._on_broken(cause, code, killed)

    def _too_few(self) -> None:
        if not self._stopping:
            self._account.forget_exits()  # of workers of a former round: nobody has worked since
            self._account.gave_up(TOO_FEW, self._loop.clock())
            self._stop(signal.SIGTERM, self._rules.grace)

    # -- nodes that come --------------------------------------------------------------------

    def _on_left(self, peer: Peer, body: bytes) -> None:
        self._must_run()
        left = messages.unpack(messages.Left, body)
        self._lose(peer, left.why, over=False)
        if left.unusable:
            self._returns.drop(peer)
            if self._stopping and not self._rounds.generation:
                self._error = NodeError(f"{peer.name}: {left.why}")

    def _room(self) -> int:
        return self._limits.most + SPARES - self._rounds.there

    def _newcomer(self) -> Peer | None:
        return self._roster.next()

    def _reach_again(self, peer: Peer) -> None:
        peer.hang_up()
        peer.forget()
        self._reached.add(peer)
        try:
            self._reach(peer.origin)
        except DsrunError as error:
            self.on_session_end(peer.number, str(error))

    def _on_hello(self, peer: Peer, body: bytes) -> None:
        """Take a node's HELLO, at the start or when it has come later."""
        if not self._running:
            self._gathering.hello(peer, body)
            return
        hello = messages.unpack(messages.Hello, body)
        if peer.hello is not None:
            raise frames.BadFrame("a second HELLO")
        problems = self._problems(peer, hello)
        if problems and peer.lost != problems[0]:
            peer.lost = problems[0]
            self._warn(f"cannot take {peer.name} in: {peer.lost}")
        if problems or self._stopping or not self._rounds.came(peer.number):
            peer.hang_up()
            self._returns.failed(peer)
            return
        word = "here" if peer.lost == NEW else "back"
        self._console.say(f"{peer.name} is {word}", "warning")
        self._take_in(peer, hello)

    def _problems(self, peer: Peer, hello: messages.Hello) -> list[str]:
        """Return why a node cannot be with those that are there."""
        there = [one for one in self.peers if one.hello and not one.over]
        hellos = {one.number: one.hello for one in there if one.hello}
        nodes = [one.origin for one in (*there, peer)]
        return checks.problems(nodes, {**hellos, peer.number: hello})

    def _take_in(self, peer: Peer, hello: messages.Hello) -> None:
        host = peer.node.host
        if host.slots is None:
            host = host._replace(slots=tuple(range(hello.slots)))
        peer.node = Node(peer.node.rank, host, 0, host.slots)
        peer.hello, peer.lost = hello, ""
        peer.saw_clock(hello.clock, self._loop.clock())
        self._returns.back(peer)
        peer.send(messages.pack(frames.START, self._order(peer.node, "", 0)))
        self._roster.retire()

    # -- growing and shrinking --------------------------------------------------------------

    def resize(self, nodes: int) -> str:
        """Have so many nodes in a round from now on; returns what there is to say of it.

        Raises:
            DsrunError: the job's limits do not allow it.
        """
        least, most = self._limits.least, self._limits.most
        if not least <= nodes <= most:
            raise DsrunError(f"this job takes {least} to {most} nodes, not {nodes}")
        there = sum(not peer.over for peer in self.peers)
        self._console.say(f"asked for {counted(nodes, 'node')}", "warning")
        self._rounds.resize(nodes)
        more = f"; there are {there} now" if there < nodes else ""
        return f"rounds of at most {counted(nodes, 'node')} from now on{more}"

    def list_hosts(self, hosts: Sequence[Host]) -> bool:
        """Take in which hosts may take part now: new ones are reached, others are let go.

        Returns:
            False where it is not the time for that, before the start.
        """
        if not self._running or self._stopping:
            return False
        self._roster.take(hosts)
        return True

    def _add(self, host: Host) -> Peer:
        number = len(self.peers)
        peer = Peer(Node(number, host, None, host.slots))
        self.peers.append(peer)
        self._by_rank[number] = peer
        return peer

    def _let_go(self, number: int) -> None:
        peer = self.peers[number]
        self._console.say(f"{peer.name} is taken out", "warning")
        peer.send(messages.pack(frames.STOP, messages.Stop(signal.SIGTERM, self._rules.grace)))

    # -- the end ----------------------------------------------------------------------------

    def _on_done(self, peer: Peer, body: bytes) -> None:
        super()._on_done(peer, body)
        if self._stopping or self._ending or peer.lost:
            return  # what is lost is not done, though nothing is left there
        was_leaving = self._rounds.is_leaving(peer.number)
        if not self._rounds.done(peer.number):
            self._account.lost(peer.name, ENDED_EARLY, self._loop.clock())
            self._stop(signal.SIGTERM, self._rules.grace)
        for spare in self._idle():
            spare.send(messages.pack(frames.STOP, messages.Stop(signal.SIGTERM, 0)))
        if was_leaving:
            self._roster.gone(peer)

    def _idle(self) -> list[Peer]:
        """Return the spares that nobody will need any more: all members are done."""
        members = [self.peers[number] for number in self._rounds.members]
        if not members or any(not one.over for one in members):
            return []
        return [peer for peer in self.peers if not peer.over]

    def _stop(self, number: int, grace: float) -> None:
        self._rounds.close()
        self._returns.close()
        super()._stop(number, grace)

    def _end(self) -> None:
        self._returns.close()
        super()._end()
