"""An elastic job: rounds over the nodes' lines in place of one start, until one ends well."""

from __future__ import annotations

import signal

from ..control import frames, messages
from ..elastic.rounds import Calls, Limits, Rounds
from ..plan import lay_out
from . import checks
from .job import Job
from .returns import Returns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..backends.base import Dial, Part
    from ..plan import Node, Plan
    from .peer import Peer
    from .report import Report

ENDED_EARLY = "its workers ended while others restart, and too few nodes are left"


class ElasticJob(Job):
    """A job that survives failures and losses, within limits."""

    def __init__(self, limits: Limits, *args: Any) -> None:
        """Prepare it; what follows the limits is a Job's."""
        super().__init__(*args)
        self._limits = limits
        say = self._console.say
        calls = Calls(self._form, self._change, lambda text: say(text, "warning"))
        self._rounds = Rounds(len(self.peers), limits, calls, self._loop)
        self._returns = Returns(self._loop, self._reach_again)
        self._first_nodes = [peer.node for peer in self.peers]
        self._whole = self._plan
        self._master = ""
        self._start_again: Callable[[Node], None] = lambda _node: None

    def run(
        self, parts: Sequence[Part], dial: Dial | None, on_token: Callable[[str, str], None]
    ) -> Report:
        """Run it; see Job."""

        def start_again(node: Node) -> None:
            reports = self._reports(on_token)
            for backend, nodes in parts:
                if node in nodes and backend.transport == "stdio":
                    backend.start([node], self._loop, reports, None)

        self._start_again = start_again
        return super().run(parts, dial, on_token)

    def on_session_end(self, rank: int, cause: str) -> None:
        """Take in the end of a session, which may have been an attempt to have a node back."""
        super().on_session_end(rank, cause)
        peer = self.peers[rank]
        if self._running and peer.lost and peer.hello is None:
            self._returns.failed(peer)

    def _handlers(self, peer: Peer) -> dict[int, Callable[[bytes], None]]:
        return {
            **super()._handlers(peer),
            frames.HELLO: lambda body: self._on_hello(peer, body),
            frames.JOIN: lambda body: self._on_join(peer, body),
        }

    # -- rounds -----------------------------------------------------------------------------

    def _start(self, plan: Plan, master: str, port: int) -> None:
        self._whole, self._master = plan, master
        super()._start(plan, master, port)

    def _on_join(self, peer: Peer, body: bytes) -> None:
        if not self._stopping and not peer.over:
            self._rounds.joined(self._number(peer), messages.unpack(messages.Join, body).port)

    def _change(self, numbers: list[int]) -> None:
        for number in numbers:
            self.peers[number].send(frames.pack(frames.CHANGE))

    def _form(self, numbers: list[int], restarts: int) -> None:
        peers = [self.peers[number] for number in numbers]
        plan = self._whole._replace(nodes=lay_out([peer.node.host for peer in peers]))
        for peer, node in zip(peers, plan.nodes, strict=True):
            peer.node = node
        self._tell(plan)
        address, port = self._meeting_place(peers[0]), self._rounds.port(numbers[0])
        for peer in peers:
            order = self._order(peer.node, address, port)._replace(
                generation=self._rounds.generation,
                restarts=restarts,
                max_restarts=self._limits.restarts,
            )
            peer.send(messages.pack(frames.ROUND, order))

    def _tell(self, plan: Plan) -> None:
        """Say who is in the round, and forget how workers of former ones have ended."""
        self._account.forget_exits()
        self._label(plan)
        hosts = ", ".join(node.host.name for node in plan.nodes)
        level = "info" if self._rounds.generation > 1 else "debug"
        self._console.say(f"next round: {plan.world_size} workers on {hosts}", level)

    def _meeting_place(self, first: Peer) -> str:
        """Where the others reach the first node: as was tried out, else by the name it has."""
        if first is self.peers[0]:
            return self._master
        assert first.hello is not None
        return checks.master_candidates(first.node, first.hello, None, alone=False)[0]

    # -- failures and losses ----------------------------------------------------------------

    def _on_exit(self, peer: Peer, body: bytes) -> None:
        ended = messages.unpack(messages.Exit, body)
        if self._stopping or ended.signalled or not ended.code or not self._goes_on(peer, ended):
            super()._on_exit(peer, body)

    def _goes_on(self, peer: Peer, ended: messages.Exit) -> bool:
        how = f"exited {ended.code}" if ended.code > 0 else f"was killed by signal {-ended.code}"
        code = ended.code if ended.code > 0 else 128 - ended.code
        return self._rounds.failed(f"rank {ended.rank} on {peer.name} {how}", code)

    def _lose(self, peer: Peer, reason: str, *, over: bool = True, explained: bool = True) -> None:
        if peer.over:
            return
        if self._stopping or not self._rounds.left(self._number(peer)):
            super()._lose(peer, reason, over=over, explained=explained)
            return
        peer.lost = reason
        self._console.say(f"lost {peer.name}: {reason}; going on without it", "warning")
        self._returns.expect(peer)

    def _reach_again(self, peer: Peer) -> None:
        if peer.link is not None:
            peer.link.close()
        peer.forget()
        self._start_again(self._first_nodes[self._number(peer)])

    def _on_hello(self, peer: Peer, body: bytes) -> None:
        """Take a node's HELLO, at the start or when it is back."""
        if not self._running:
            self._gathering.hello(peer, body)
            return
        hello = messages.unpack(messages.Hello, body)
        if hello.problems or self._stopping or not self._rounds.came(self._number(peer)):
            self._returns.failed(peer)
            return
        self._console.say(f"{peer.name} is back", "warning")
        peer.hello, peer.lost = hello, ""
        peer.saw_clock(hello.clock, self._loop.clock())
        self._returns.back(peer)
        peer.send(messages.pack(frames.START, self._order(peer.node, "", 0)))

    # -- the end ----------------------------------------------------------------------------

    def _on_done(self, peer: Peer, body: bytes) -> None:
        super()._on_done(peer, body)
        if self._stopping or self._ending:
            return
        if not self._rounds.done(self._number(peer)):
            self._account.lost(peer.name, ENDED_EARLY, self._loop.clock())
            self._stop(signal.SIGTERM, self._rules.grace)
        for spare in self._idle():
            spare.send(messages.pack(frames.STOP, messages.Stop(signal.SIGTERM, 0)))

    def _idle(self) -> list[Peer]:
        """Return the spares that nobody will need any more: all members are done."""
        members = [self.peers[number] for number in self._rounds.members]
        return [] if any(not one.over for one in members) else [p for p in self.peers if not p.over]

    def _stop(self, number: int, grace: float) -> None:
        self._rounds.close()
        self._returns.close()
        super()._stop(number, grace)

    def _end(self) -> None:
        self._returns.close()
        super()._end()

    def _number(self, peer: Peer) -> int:
        return self.peers.index(peer)
