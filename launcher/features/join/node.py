"""`--no_ssh`: a node other than node 0 dials node 0, and serves its job as a node launcher."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from ...common.errors import DsrunError, LostError, NodeError, UsageError
from ...common.secret import shared_secret
from ...common.stderr import tell
from ...resources import source
from ...specs.backend import DIAL_TIMEOUT
from ...specs.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...control.tls import TlsStream
    from ...specs.backend import DialIn
    from ...specs.plan import Plan

RETRY_INTERVAL = 0.25
"""Seconds between two attempts while node 0 does not listen yet."""

NOTE_AFTER = 3.0
"""Seconds of waiting until a message is printed."""

WELCOME_TIMEOUT = 30.0
"""Seconds for node 0 to prove that it knows the secret too."""


def join(plan: Plan, dial_in: DialIn, timeout: float) -> TlsStream:
    """Return the line to node 0, over which this node takes part in its job.

    Raises:
        LostError: node 0 cannot be reached in time, or rejects this node.
    """
    node, first = plan.nodes[dial_in.node_rank], dial_in.first
    if source.is_here(Host(first)) and not _is_loopback(first):
        raise UsageError(
            f"--node_rank {node.rank}: this machine is {first}, which is node 0;"
            f" give every node a different rank, 0 to {len(plan.nodes) - 1}"
        )
    secret = shared_secret(dial_in.token_file)
    line, seen = _dial(first, dial_in.known_port(plan.master_port), timeout)
    try:
        _authenticate(line, seen, secret, plan, node.rank)
    except DsrunError:
        line.close()
        raise
    tell(f"node {node.rank} of {len(plan.nodes)} has joined; {first} shows all output")
    os.environ.pop("DSRUN_TOKEN", None)
    return line


def _is_loopback(name: str) -> bool:
    """Return whether a name means the local machine everywhere; it may be a tunnel to node 0."""
    return name in {source.THIS_MACHINE, "::1"} or name.startswith("127.")


def _dial(address: str, port: int, timeout: float) -> tuple[TlsStream, str]:
    """Return the line and the certificate's fingerprint, once node 0 answers.

    Node 0 may be started up to `timeout` seconds later than this node.
    """
    from ...control import tls

    began = time.monotonic()
    noted = False
    while True:
        try:
            return tls.dial([address], port, "", DIAL_TIMEOUT)
        except tls.CannotDial as error:
            waited = time.monotonic() - began
            if waited > timeout:
                raise LostError(f"{error}; is dsrun running on node 0 (--master_addr)?") from None
            if not noted and waited > NOTE_AFTER:
                tell(f"waiting for node 0 at {address}:{port}")
                noted = True
            time.sleep(RETRY_INTERVAL)


def _authenticate(line: TlsStream, seen: str, secret: str, plan: Plan, rank: int) -> None:
    """Prove knowledge of the secret for the certificate `seen`, and check node 0's proof."""
    from ...control import auth, frames, messages
    from ...control.stream import StreamClosed

    name = str(rank)
    welcome = auth.prove(secret, seen, f"runner {name}")
    with suppress(StreamClosed):
        line.send(messages.pack(frames.AUTH, auth.credentials(name, secret, seen, plan)))
    kind, body = line.wait_for_one(WELCOME_TIMEOUT) or (0, b"")
    if kind == frames.END:
        with suppress(frames.BadFrame):
            report = frames.unpack_json(body).get("report")
            raise NodeError(f"node 0 rejected this node: {report}")
    if kind != frames.WELCOME:
        raise LostError("node 0 rejected this node: its DSRUN_TOKEN differs; see node 0's output")
    if not auth.same(body.decode("ascii", "replace"), welcome):
        raise UsageError(
            "the program that answers as node 0 does not know the secret (DSRUN_TOKEN);"
            " check --master_addr and --master_port"
        )
