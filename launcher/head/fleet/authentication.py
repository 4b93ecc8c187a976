"""Who may come in at the door, for the two ways in which node launchers dial back."""

from __future__ import annotations

import os
from contextlib import suppress

from ...common.errors import NODE_UNUSABLE
from ...common.text import plain
from ...control import auth, frames
from ...control.line import LineClosed
from . import listener
from .match_node import Misplaced, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...control.line import Line
    from ...control.tls import TlsLine
    from ...specs.plan import Node, Plan

    Enter = Callable[[int, Line], None]


class Announced:
    """Node launchers started by an engine: each dials with the token that it announced before."""

    def __init__(
        self,
        nodes: Sequence[Node],
        enter: Enter,
        refuse: Callable[[int, str], None],
        *,
        returns: bool = False,
    ) -> None:
        """Await `nodes`; `refuse` is told of one whose engine has put it where it is not to be.

        The door is closed once all are here, unless a node that was lost `returns`.
        """
        self._nodes = nodes
        self._returns = returns
        self._awaited = {node.rank for node in nodes}
        self._enter = enter
        self._refuse = refuse
        self._tokens: dict[str, str] = {}
        self._ranks: dict[str, int] = {}
        self.door: listener.Door | None = None

    def announce(self, who: str, token: str) -> None:
        """Take in a token from the engine's output; the first word of a node counts."""
        node = self._place(who)
        if node is None or who in self._tokens:
            return
        if node.rank in self._ranks.values() or node.rank not in self._awaited:
            self._refuse(node.rank, "the engine has started two node launchers for it")
            return
        self._ranks[who] = node.rank
        self._tokens[who] = token
        if self.door is not None:
            self.door.recheck(who)

    def again(self, rank: int) -> None:
        """Take in another token for a node: its node launcher is started once more."""
        self._awaited.add(rank)
        for who in [one for one in self._tokens if self._rank(one) == rank]:
            del self._tokens[who]
            self._ranks.pop(who, None)

    def verify(self, claim: auth.Claim) -> listener.Verdict:
        """Tell whether a caller is who it says; "wait" while its token is still on its way."""
        token = self._tokens.get(claim.node)
        if token is None:
            return listener.WAIT if self._may_come(claim.node) else listener.NO_PROOF
        known = claim.node in self._ranks and auth.same(token, claim.proof)
        return listener.YES if known else listener.NO_PROOF

    def enter(self, claim: auth.Claim, line: TlsLine) -> None:
        """Hand the line of a node over, once."""
        rank = self._ranks.pop(claim.node)
        self._awaited.discard(rank)
        if self.door is not None and not self._awaited and not self._returns:
            self.door.close()
        self._enter(rank, line)

    def _rank(self, who: str) -> int:
        node = self._place(who)
        return -1 if node is None else node.rank

    def _may_come(self, who: str) -> bool:
        try:
            return place(who, self._nodes) is not None
        except Misplaced:
            return False

    def _place(self, who: str) -> Node | None:
        try:
            return place(who, self._nodes)
        except Misplaced as error:
            self._refuse(error.rank, str(error))
            return None


class Sharing:
    """Node launchers that were started by hand: each proves the secret that all of them share."""

    def __init__(
        self,
        plan: Plan,
        secret: str,
        fingerprint: str,
        enter: Enter,
        call_off: Callable[[str], None],
    ) -> None:
        """Await the plan's nodes; `call_off` is told why the job cannot come about."""
        self._ranks = [str(node.rank) for node in plan.nodes]
        self._came = {"0": os.uname().nodename}
        self._secret = secret
        self._fingerprint = fingerprint
        self._digest = auth.digest(plan)
        self._enter = enter
        self._call_off = call_off
        self.door: listener.Door | None = None

    def verify(self, claim: auth.Claim) -> listener.Verdict:
        """Tell whether a caller knows the secret."""
        proof = auth.prove(self._secret, self._fingerprint, f"node {claim.node}")
        if auth.same(proof, claim.proof) and claim.node in self._ranks:
            return listener.YES
        node = plain(claim.node[:20])
        return f"node {node}: turned away, its DSRUN_TOKEN is not this one's"

    def enter(self, claim: auth.Claim, line: TlsLine) -> None:
        """Hand the line of a node over, once, after showing it in turn who this is.

        One that knows the secret and cannot take part has failed, and with it the start.
        """
        fault = self._fault(claim)
        if fault:
            with suppress(LineClosed):
                line.send(frames.pack_json(frames.END, {"code": NODE_UNUSABLE, "story": fault}))
            line.close()
            self._call_off(fault)
            return
        proof = auth.prove(self._secret, self._fingerprint, f"runner {claim.node}")
        try:
            line.send(frames.pack(frames.WELCOME, proof.encode()))
        except LineClosed:
            line.close()  # gone again; it may come back
            return
        self._came[claim.node] = claim.host
        if self.door is not None and len(self._came) == len(self._ranks):
            self.door.close()
        self._enter(int(claim.node), line)

    def _fault(self, claim: auth.Claim) -> str:
        """Return why a caller cannot take part, "" where it can."""
        host = plain(claim.host[:64])
        if claim.node in self._came:
            first = plain(self._came[claim.node][:64])
            return (
                f"two nodes came as --node_rank {claim.node}: {first} and {host};"
                f" each needs its own, 0 to {len(self._ranks) - 1}"
            )
        if claim.digest != self._digest:
            return (
                f"node {claim.node} ({host}) was started with another command line"
                " (hosts, slots and script must be the same on every node)"
            )
        return ""


def target(addresses: Sequence[str], port: int) -> str:
    """Return where to dial, as a node launcher's command has it."""
    return f"{','.join(addresses)}:{port}"
