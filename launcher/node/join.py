"""`--no_ssh`: a node other than the first dials node 0, to serve its job as a node launcher."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from ..common.errors import DsrunError, LostError, NodeError, UsageError
from ..common.secret import shared_secret
from ..resources import source
from ..specs.dial_in import DIAL_TIMEOUT
from ..specs.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..control.tls import TlsStream
    from ..specs.dial_in import DialIn
    from ..specs.plan import Plan

AGAIN = 0.25
"""Seconds between two tries while node 0 does not listen yet."""

SAY_AFTER = 3.0
"""Seconds of waiting until it is worth a line."""

WELCOME_TIMEOUT = 30.0
"""Seconds for node 0 to show in turn that it knows the secret."""


def join(plan: Plan, dial_in: DialIn, timeout: float) -> TlsStream:
    """Return the line to node 0, over which this node takes part in its job.

    Raises:
        LostError: node 0 cannot be reached in time, or turns this node away.
    """
    node, first = plan.nodes[dial_in.node_rank], dial_in.first
    if source.is_here(Host(first)) and not _is_loopback(first):
        raise UsageError(
            f"--node_rank {node.rank}: this machine is {first}, where node 0 is to be;"
            f" give every node its own, 0 to {len(plan.nodes) - 1}"
        )
    secret = shared_secret(dial_in.token_file)
    line, seen = _dial(first, dial_in.known_port(plan.master_port), timeout)
    try:
        _introduce(line, seen, secret, plan, node.rank)
    except DsrunError:
        line.close()
        raise
    sys.stderr.write(
        f"dsrun: node {node.rank} of {len(plan.nodes)} has joined; {first} shows all output\n"
    )
    sys.stderr.flush()
    os.environ.pop("DSRUN_TOKEN", None)
    return line


def _is_loopback(name: str) -> bool:
    """Return whether a name means whichever machine it is said on: it may be a tunnel to node 0."""
    return name in {source.THIS_MACHINE, "::1"} or name.startswith("127.")


def _dial(address: str, port: int, timeout: float) -> tuple[TlsStream, str]:
    """Return the line and the certificate's fingerprint, once node 0 answers.

    It may be started later than this node, by as many seconds as the timeout.
    """
    from ..control import tls

    began = time.monotonic()
    noted = False
    while True:
        try:
            return tls.dial([address], port, "", DIAL_TIMEOUT)
        except tls.CannotDial as error:
            waited = time.monotonic() - began
            if waited > timeout:
                raise LostError(f"{error}; is dsrun running on node 0 (--master_addr)?") from None
            if not noted and waited > SAY_AFTER:
                sys.stderr.write(f"dsrun: waiting for node 0 at {address}:{port}\n")
                sys.stderr.flush()
                noted = True
            time.sleep(AGAIN)


def _introduce(line: TlsStream, seen: str, secret: str, plan: Plan, rank: int) -> None:
    """Prove the secret over the certificate that was seen, and have node 0 prove it too."""
    from ..control import auth, frames, messages
    from ..control.stream import StreamClosed

    name = str(rank)
    welcome = auth.prove(secret, seen, f"runner {name}")
    with suppress(StreamClosed):
        line.send(messages.pack(frames.AUTH, auth.credentials(name, secret, seen, plan)))
    kind, body = line.wait_for_one(WELCOME_TIMEOUT) or (0, b"")
    if kind == frames.END:
        with suppress(frames.BadFrame):
            story = frames.unpack_json(body).get("story")
            raise NodeError(f"node 0 turned this node away: {story}")
    if kind != frames.WELCOME:
        raise LostError("node 0 turned this node away: another DSRUN_TOKEN; node 0 says so, too")
    if not auth.same(body.decode("ascii", "replace"), welcome):
        raise UsageError("who answers as node 0 does not know the secret (DSRUN_TOKEN)")
