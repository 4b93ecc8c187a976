"""Authentication of node launchers that dial: by token (engines) or by shared secret (--no_ssh)."""

from __future__ import annotations

import os
from contextlib import suppress

from ...common.errors import NODE_UNUSABLE
from ...common.text import plain
from ...control import auth, frames
from ...control.stream import StreamClosed
from .claims import Claim, Claims
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
    """Authenticates node launchers started by an engine, each by the token that it printed.

    Attributes:
        on_token: called with the name of a node whose token has arrived; the node may have dialled
            already.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        admit: Admit,
        on_misplaced: Callable[[int, str], None],
        *,
        returns: bool = False,
    ) -> None:
        """Expect each of these nodes once.

        Args:
            nodes: the nodes that dial.
            admit: called with the rank of each node, and its connection.
            on_misplaced: called with the rank of a node that claims to be another, or that the
                engine has started on another host, and the reason.
            returns: whether lost nodes may dial again; the set is then never complete.
        """
        self._nodes = nodes
        self._returns = returns
        self._missing = {node.rank for node in nodes}
        self._on_admitted = admit
        self._on_misplaced = on_misplaced
        self._names = {node.rank: node.host.name for node in nodes}
        self._claims = Claims(len(nodes))
        self.on_token: Callable[[str], None] = lambda _name: None

    @property
    def complete(self) -> bool:
        """True if no more nodes can connect."""
        return not self._missing and not self._returns

    def announce(self, rank: int, name: str, token: str) -> None:
        """Add a token from the output of a node; only the first one of a node counts."""
        if self._claims.has(rank):
            return
        try:
            node = place(name, self._nodes)
        except WrongNode as error:
            self._on_misplaced(rank, str(error))
            return
        if node is None:
            return
        accepted, refused = self._claims.add(Claim(rank, node.rank, name, token))
        for claim in accepted:
            self.on_token(claim.name)
        for claim, rival in refused:
            self._on_misplaced(claim.speaker, self._dispute(claim, rival))

    def again(self, rank: int) -> None:
        """Expect another token of a node: its node launcher is started again."""
        self._missing.add(rank)
        self._claims.remove(rank)

    def verify(self, credentials: auth.Credentials) -> bool:
        """Return whether a caller has its node's token; False while that has not arrived yet.

        Raises:
            Rejected: the caller has another token, or the node is connected already.
        """
        rank = self._rank(credentials.node)
        claim = self._claims.valid(rank)
        if rank in self._missing and claim is None:
            return False
        known = claim is not None and auth.same(claim.token, credentials.proof)
        if rank not in self._missing or not known:
            raise Rejected(NO_PROOF)
        return True

    def admit(self, credentials: auth.Credentials, line: TlsStream) -> None:
        """Hand over the connection of a node; its token cannot be used again."""
        rank = self._rank(credentials.node)
        self._missing.discard(rank)
        self._on_admitted(rank, line)

    def _dispute(self, claim: Claim, rival: Claim) -> str:
        one, other = sorted((claim.speaker, rival.speaker))
        return (
            f"two node launchers claim to be {self._names[claim.place]}: those started for"
            f" {self._names[one]} and {self._names[other]}"
        )

    def _rank(self, name: str) -> int:
        """Return the rank of the node that a caller claims to be; -1 if there is no such node."""
        try:
            node = place(name, self._nodes)
        except WrongNode:
            return -1
        return -1 if node is None else node.rank


class SecretVerifier:
    """Authenticates node launchers of --no_ssh: each proves that it knows the shared secret."""

    def __init__(
        self,
        plan: Plan,
        secret: str,
        fingerprint: str,
        admit: Admit,
        abort: Callable[[str], None],
    ) -> None:
        """Expect the nodes of a plan, except the first, which is this one.

        Args:
            plan: the plan, equal on all nodes.
            secret: the shared secret.
            fingerprint: the fingerprint of the runner's certificate.
            admit: called with the rank of each node, and its connection.
            abort: called with the reason if the job cannot start.
        """
        self._ranks = [str(node.rank) for node in plan.nodes]
        self._hosts = {"0": os.uname().nodename}
        self._secret = secret
        self._fingerprint = fingerprint
        self._digest = auth.digest(plan)
        self._on_admitted = admit
        self._abort = abort

    @property
    def complete(self) -> bool:
        """True if all nodes are connected."""
        return len(self._hosts) == len(self._ranks)

    def verify(self, credentials: auth.Credentials) -> bool:
        """Return True for a caller that knows the secret.

        Raises:
            Rejected: the caller does not know the secret.
        """
        proof = auth.prove(self._secret, self._fingerprint, f"node {credentials.node}")
        if not auth.same(proof, credentials.proof) or credentials.node not in self._ranks:
            node = plain(credentials.node[:20])
            raise Rejected(f"node {node}: its DSRUN_TOKEN differs from node 0's")
        return True

    def admit(self, credentials: auth.Credentials, line: TlsStream) -> None:
        """Hand over the connection of a node, after proving to it that the runner has the secret.

        A node that knows the secret but cannot take part makes the start fail.
        """
        fault = self._fault(credentials)
        if fault:
            with suppress(StreamClosed):
                line.send(frames.pack_json(frames.END, {"code": NODE_UNUSABLE, "report": fault}))
            line.close()
            self._abort(fault)
            return
        proof = auth.prove(self._secret, self._fingerprint, f"runner {credentials.node}")
        try:
            line.send(frames.pack(frames.WELCOME, proof.encode()))
        except StreamClosed:
            line.close()  # disconnected already; it may dial again
            return
        self._hosts[credentials.node] = credentials.host
        self._on_admitted(int(credentials.node), line)

    def _fault(self, credentials: auth.Credentials) -> str:
        """Return why a caller cannot take part, "" if it can."""
        rank, host = credentials.node, plain(credentials.host[:64])
        if rank in self._hosts:
            first = plain(self._hosts[rank][:64])
            return (
                f"two nodes have --node_rank {rank}: {first} and {host};"
                f" give each node its own, 0 to {len(self._ranks) - 1}"
            )
        if credentials.digest != self._digest:
            return (
                f"node {rank} ({host}) was started with another command line"
                " (hosts, slots and script must be the same on every node)"
            )
        return ""


def target(addresses: Sequence[str], port: int) -> str:
    """Return the runner's addresses and port in the form that a node launcher's command takes."""
    return f"{','.join(addresses)}:{port}"
