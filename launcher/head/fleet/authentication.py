"""Who may come in at the listener, for the two ways in which node launchers dial back."""

from __future__ import annotations

import os
from contextlib import suppress

from ...common.errors import NODE_UNUSABLE
from ...common.text import plain
from ...control import auth, frames
from ...control.stream import StreamClosed
from .match_node import WrongNode, place
from .rejections import NO_PROOF, Rejected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...control.stream import FrameStream
    from ...control.tls import TlsStream
    from ...specs.plan import Node, Plan

    Admit = Callable[[int, FrameStream], None]


class TokenVerifier:
    """Node launchers started by an engine: each dials with the token that it announced before.

    Attributes:
        on_token: called with a name for which a token has come: its caller may be waiting.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        admit: Admit,
        on_misplaced: Callable[[int, str], None],
        *,
        returns: bool = False,
    ) -> None:
        """Expect these nodes, each once.

        Args:
            nodes: those that dial.
            admit: is given the rank of each, and its line.
            on_misplaced: called for a node whose engine has put it where it is not to be, and why.
            returns: a node that was lost may come again, so that it is never complete.
        """
        self._nodes = nodes
        self._returns = returns
        self._missing = {node.rank for node in nodes}
        self._hand_over = admit
        self._on_misplaced = on_misplaced
        self._tokens: dict[str, str] = {}
        self._ranks: dict[str, int] = {}
        self.on_token: Callable[[str], None] = lambda _name: None

    @property
    def complete(self) -> bool:
        """Whether all have entered that ever will."""
        return not self._missing and not self._returns

    def announce(self, name: str, token: str) -> None:
        """Add a token from the engine's output; the first one of a node counts."""
        node = self._node(name)
        if node is None or name in self._tokens:
            return
        if node.rank in self._ranks.values() or node.rank not in self._missing:
            self._on_misplaced(node.rank, "the engine has started two node launchers for it")
            return
        self._ranks[name] = node.rank
        self._tokens[name] = token
        self.on_token(name)

    def again(self, rank: int) -> None:
        """Expect another token of a node: its node launcher is started once more."""
        self._missing.add(rank)
        for name in [one for one in self._tokens if self._rank(one) == rank]:
            del self._tokens[name]
            self._ranks.pop(name, None)

    def verify(self, credentials: auth.Credentials) -> bool:
        """Return whether a caller has its node's token; False while that is still on its way.

        Raises:
            Rejected: it has not, or has been here.
        """
        token = self._tokens.get(credentials.node)
        if token is None and self._is_expected(credentials.node):
            return False
        known = token is not None and auth.same(token, credentials.proof)
        if not known or credentials.node not in self._ranks:
            raise Rejected(NO_PROOF)
        return True

    def admit(self, credentials: auth.Credentials, line: TlsStream) -> None:
        """Hand the line of a node over, once."""
        rank = self._ranks.pop(credentials.node)
        self._missing.discard(rank)
        self._hand_over(rank, line)

    def _rank(self, name: str) -> int:
        node = self._node(name)
        return -1 if node is None else node.rank

    def _is_expected(self, name: str) -> bool:
        try:
            return place(name, self._nodes) is not None
        except WrongNode:
            return False

    def _node(self, name: str) -> Node | None:
        try:
            return place(name, self._nodes)
        except WrongNode as error:
            self._on_misplaced(error.rank, str(error))
            return None


class SecretVerifier:
    """Node launchers that were started by hand: each proves the secret that all of them share."""

    def __init__(
        self,
        plan: Plan,
        secret: str,
        fingerprint: str,
        admit: Admit,
        abort: Callable[[str], None],
    ) -> None:
        """Expect the plan's nodes but the first, which this is.

        Args:
            plan: what all of them have made of one command line.
            secret: what they share.
            fingerprint: of the certificate that they see.
            admit: is given the rank of each, and its line.
            abort: called with the reason why the job cannot come about.
        """
        self._ranks = [str(node.rank) for node in plan.nodes]
        self._hosts = {"0": os.uname().nodename}
        self._secret = secret
        self._fingerprint = fingerprint
        self._digest = auth.digest(plan)
        self._hand_over = admit
        self._abort = abort

    @property
    def complete(self) -> bool:
        """Whether all have entered that ever will."""
        return len(self._hosts) == len(self._ranks)

    def verify(self, credentials: auth.Credentials) -> bool:
        """Return True for a caller that knows the secret.

        Raises:
            Rejected: it does not.
        """
        proof = auth.prove(self._secret, self._fingerprint, f"node {credentials.node}")
        if not auth.same(proof, credentials.proof) or credentials.node not in self._ranks:
            node = plain(credentials.node[:20])
            raise Rejected(f"node {node}: turned away, its DSRUN_TOKEN is not this one's")
        return True

    def admit(self, credentials: auth.Credentials, line: TlsStream) -> None:
        """Hand the line of a node over, once, after proving to it in turn who this is.

        One that knows the secret and cannot take part has failed, and with it the start.
        """
        fault = self._fault(credentials)
        if fault:
            with suppress(StreamClosed):
                line.send(frames.pack_json(frames.END, {"code": NODE_UNUSABLE, "story": fault}))
            line.close()
            self._abort(fault)
            return
        proof = auth.prove(self._secret, self._fingerprint, f"runner {credentials.node}")
        try:
            line.send(frames.pack(frames.WELCOME, proof.encode()))
        except StreamClosed:
            line.close()  # gone again; it may come back
            return
        self._hosts[credentials.node] = credentials.host
        self._hand_over(int(credentials.node), line)

    def _fault(self, credentials: auth.Credentials) -> str:
        """Return why a caller cannot take part, "" where it can."""
        rank, host = credentials.node, plain(credentials.host[:64])
        if rank in self._hosts:
            first = plain(self._hosts[rank][:64])
            return (
                f"two nodes came as --node_rank {rank}: {first} and {host};"
                f" each needs its own, 0 to {len(self._ranks) - 1}"
            )
        if credentials.digest != self._digest:
            return (
                f"node {rank} ({host}) was started with another command line"
                " (hosts, slots and script must be the same on every node)"
            )
        return ""


def target(addresses: Sequence[str], port: int) -> str:
    """Return where to dial, as a node launcher's command has it."""
    return f"{','.join(addresses)}:{port}"
