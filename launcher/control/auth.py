"""How the two ends of a dialled line show each other who they are.

Started by an engine (pdsh and its like), a node launcher makes a token, prints it where only the
runner reads it, and sends the same token over the line; the runner's certificate is pinned. With
`--no_ssh` there is no such pipe and no pin: both ends know a secret (`DSRUN_TOKEN`) and prove it
over the certificate that they see, so nobody can stand between them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets

from ..common.values import NamedTuple
from .field_types import Name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..specs.plan import Plan

ANNOUNCEMENT = "DSRUN-TOKEN"
"""The word before the token on the node launcher's standard output."""


class Credentials(NamedTuple):
    """AUTH: who dials.

    Attributes:
        node: its name in the hostfile, or its node rank as a number (`--no_ssh`).
        proof: the announced token, or `proof` over the shared secret.
        digest: of the plan this node was started with, "" where the runner tells it.
        host: what its machine calls itself, for messages; "" where the runner knows.
    """

    node: Name
    proof: Name
    digest: Name = ""
    host: Name = ""


def new_token() -> str:
    """Return 256 random bits as text."""
    return secrets.token_urlsafe(32)


def announcement(node: str, token: str) -> str:
    """Return the line a node launcher prints."""
    return f"{ANNOUNCEMENT} {node} {token}"


def parse_announcement(line: str) -> tuple[str, str] | None:
    """Return (node, token) when a line of the engine's output announces one; labels may precede."""
    words = line.partition(ANNOUNCEMENT)[2].split()
    return (words[0], words[1]) if len(words) == 2 else None


def prove(secret: str, fingerprint: str, who: str) -> str:
    """Return what shows that `who` knows the secret and sees that certificate."""
    text = f"dsrun {who} {fingerprint}".encode()
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def same(one: str, other: str) -> bool:
    """Compare two proofs in constant time."""
    return hmac.compare_digest(_bytes(one), _bytes(other))


def digest(plan: Plan) -> str:
    """Return what two runs of one command line share: a hash over hosts, slots and program."""
    import json

    nodes = [(node.host.name, node.slots) for node in plan.nodes]
    program = plan.program._asdict()
    text = json.dumps([nodes, program])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def credentials(rank: str, secret: str, seen: str, plan: Plan) -> Credentials:
    """Return those of a node of `--no_ssh`: the secret proved over the certificate seen."""
    proof = prove(secret, seen, f"node {rank}")
    return Credentials(rank, proof, digest(plan), os.uname().nodename)
