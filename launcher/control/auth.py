"""Mutual authentication of the two ends of a dialled control line.

A node launcher started by an engine (or pdsh) makes a token, prints it on its standard output,
which only the runner reads, and sends this token over the connection; the runner's certificate is
pinned. The engine's label before the line tells which node has printed it. With `--no_ssh` there is
no such pipe and no pin: both ends prove that they know a secret (`DSRUN_TOKEN`), together with the
certificate that they see, which excludes a man in the middle.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets

from ..common.records import NamedTuple
from ..specs.field_types import Name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..specs.plan import Plan

ANNOUNCEMENT = "DSRUN-TOKEN"
"""The word before the token on the node launcher's standard output."""


class Credentials(NamedTuple):
    """AUTH: the identity of the caller.

    Attributes:
        node: its name in the hostfile, or its node rank as a number (`--no_ssh`).
        proof: the announced token, or the result of `prove` for the shared secret.
        digest: the digest of the node's plan (`--no_ssh`), "" if the runner sends the plan to the
            node.
        host: the hostname of its machine, for messages (`--no_ssh`).
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
    """Return (node, token) if a line that a node has printed announces one, and nothing else."""
    words = line.split()
    return (words[1], words[2]) if len(words) == 3 and words[0] == ANNOUNCEMENT else None


def prove(secret: str, fingerprint: str, who: str) -> str:
    """Return a proof that `who` knows the secret and sees the certificate with this fingerprint."""
    text = f"dsrun {who} {fingerprint}".encode()
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def same(one: str, other: str) -> bool:
    """Compare two proofs in constant time."""
    return hmac.compare_digest(_bytes(one), _bytes(other))


def digest(plan: Plan) -> str:
    """Return a hash over hosts, slots and program, which are equal for one command line."""
    import json

    nodes = [(node.host.name, node.slots) for node in plan.nodes]
    program = plan.program._asdict()
    text = json.dumps([nodes, program])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def credentials(rank: str, secret: str, seen: str, plan: Plan) -> Credentials:
    """Return the credentials of a `--no_ssh` node that has seen a certificate."""
    proof = prove(secret, seen, f"node {rank}")
    return Credentials(rank, proof, digest(plan), os.uname().nodename)
