"""An elastic job as the runner sees it: rounds over the nodes' lines in place of one start."""

from __future__ import annotations

from ..control import frames, messages
from ..elastic.rounds import Calls, Limits, Rounds
from ..plan import lay_out
from . import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from ..loop import Loop
    from ..plan import Node, Plan
    from .console import Console
    from .peer import Peer

    class Began(Protocol):
        """Takes the plan of a round, and whether it is the first."""

        def __call__(self, plan: Plan, *, first: bool) -> None:
            """Take it."""

    Order = Callable[[Node, str, int], messages.Start]


class Elastic:
    """Forms rounds of the peers that are there, and gives each its place."""

    def __init__(
        self,
        peers: Sequence[Peer],
        limits: Limits,
        loop: Loop,
        console: Console,
        began: Began,
        order: Order,
    ) -> None:
        """Be ready; `began` is told each round's plan, and `order` makes a node's START of it."""
        self._peers = list(peers)
        self._limits = limits
        self._console = console
        self._began = began
        self._order = order
        self._plan: Plan | None = None
        self._address = ""
        calls = Calls(self._form, self._change, lambda text: console.say(text, "warning"))
        self._rounds = Rounds(len(peers), limits, calls, loop)

    def start(self, plan: Plan, address: str) -> None:
        """Take in the plan with every node in it, and where its first node was reached."""
        self._plan = plan
        self._address = address

    def joined(self, peer: Peer, body: bytes) -> None:
        """Take a node's JOIN."""
        self._rounds.joined(self._number(peer), messages.unpack(messages.Join, body).port)

    def survives(self, what: str, code: int) -> bool:
        """Tell whether the job goes on after a worker's failure."""
        return self._rounds.failed(what, code)

    def survives_loss(self, peer: Peer, reason: str) -> bool:
        """Tell whether the job goes on without a node."""
        goes_on = self._rounds.left(self._number(peer))
        if goes_on:
            self._console.say(f"lost {peer.name}: {reason}; going on without it", "warning")
        return goes_on

    def takes_back(self, peer: Peer) -> bool:
        """Tell whether a node that is back takes part again."""
        taken = self._rounds.came(self._number(peer))
        if taken:
            self._console.say(f"{peer.name} is back", "warning")
        return taken

    def done(self, peer: Peer) -> bool:
        """Take in a node's good end, and tell whether the others can go on."""
        return self._rounds.done(self._number(peer))

    def idle(self) -> list[Peer]:
        """Return the spares that nobody will need any more."""
        members = [self._peers[number] for number in self._rounds.members]
        if any(not one.over for one in members):
            return []
        return [one for one in self._peers if not one.over]

    def close(self) -> None:
        """Form no other round: the job is being stopped."""
        self._rounds.close()

    def _number(self, peer: Peer) -> int:
        return self._peers.index(peer)

    def _change(self, numbers: list[int]) -> None:
        for number in numbers:
            self._peers[number].send(frames.pack(frames.CHANGE))

    def _form(self, numbers: list[int], restarts: int) -> None:
        assert self._plan is not None
        peers = [self._peers[number] for number in numbers]
        plan = self._plan._replace(nodes=lay_out([peer.node.host for peer in peers]))
        for peer, node in zip(peers, plan.nodes, strict=True):
            peer.node = node
        self._began(plan, first=self._rounds.generation == 1)
        address, port = self._meeting_place(peers[0]), self._rounds.port(numbers[0])
        for peer in peers:
            order = self._order(peer.node, address, port)._replace(
                generation=self._rounds.generation,
                restarts=restarts,
                max_restarts=self._limits.restarts,
            )
            peer.send(messages.pack(frames.ROUND, order))

    def _meeting_place(self, first: Peer) -> str:
        """Where the others reach the first node: as was tried out, else by the name it has."""
        if first is self._peers[0]:
            return self._address
        assert first.hello is not None
        return checks.master_candidates(first.node, first.hello, None, alone=False)[0]
