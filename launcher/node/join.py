"""`--no_ssh`: a node other than the first dials node 0, to serve its job as a node launcher."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from ..common.errors import LostError, NodeError, UsageError
from ..common.secret import control_port, shared_secret
from ..planning import master
from ..resources import source
from ..specs.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options
    from ..control.tls import TlsLine
    from ..specs.plan import Plan

AGAIN = 0.25
"""Seconds between two tries while node 0 does not listen yet."""

SAY_AFTER = 3.0
"""Seconds of waiting until it is worth a line."""

WELCOME_TIMEOUT = 30.0
"""Seconds for node 0 to show in turn that it knows the secret."""


def join(plan: Plan, options: Options) -> TlsLine:
    """Return the line to node 0, over which this node takes part in its job.

    Raises:
        LostError: node 0 cannot be reached in time, or turns this node away.
    """
    node = plan.nodes[options.node_rank or 0]
    first = master.first(plan, options)
    if source.is_here(Host(first)) and not _is_loopback(first):
        raise UsageError(
            f"--node_rank {node.rank}: this machine is {first}, where node 0 is to be;"
            f" give every node its own, 0 to {len(plan.nodes) - 1}"
        )
    line = _dial(first, control_port(options, plan.master_port), plan, options)
    sys.stderr.write(
        f"dsrun: node {node.rank} of {len(plan.nodes)} has joined; {first} shows all output\n"
    )
    sys.stderr.flush()
    os.environ.pop("DSRUN_TOKEN", None)
    return line


def _is_loopback(name: str) -> bool:
    """Tell whether a name means whichever machine it is said on: it may be a tunnel to node 0."""
    return name in {source.THIS_MACHINE, "::1"} or name.startswith("127.")


def _dial(address: str, port: int, plan: Plan, options: Options) -> TlsLine:
    """Dial until node 0 answers; it may be started later than this one."""
    from ..control import tls

    secret = shared_secret(options)
    began = time.monotonic()
    told = False
    while True:
        try:
            line, seen = tls.dial([address], port, "", master.DIAL_TIMEOUT)
            break
        except tls.CannotDial as error:
            waited = time.monotonic() - began
            if waited > options.start_timeout:
                raise LostError(f"{error}; is dsrun running on node 0 (--master_addr)?") from None
            if not told and waited > SAY_AFTER:
                sys.stderr.write(f"dsrun: waiting for node 0 at {address}:{port}\n")
                sys.stderr.flush()
                told = True
            time.sleep(AGAIN)
    return _introduce(line, seen, secret, plan, options)


def _introduce(line: TlsLine, seen: str, secret: str, plan: Plan, options: Options) -> TlsLine:
    """Prove the secret over the certificate that was seen, and have node 0 prove it too."""
    from ..control import auth, frames, messages
    from ..control.line import LineClosed

    rank = str(options.node_rank)
    welcome = auth.prove(secret, seen, f"runner {rank}")
    with suppress(LineClosed):
        line.send(messages.pack(frames.AUTH, auth.claim(rank, secret, seen, plan)))
    kind, body = line.wait_for_one(WELCOME_TIMEOUT) or (0, b"")
    if kind == frames.END:
        with suppress(frames.BadFrame):
            told = frames.unpack_json(body).get("story")
            raise NodeError(f"node 0 turned this node away: {told}")
    if kind != frames.WELCOME:
        raise LostError("node 0 turned this node away: another DSRUN_TOKEN; node 0 says so, too")
    if not auth.same(body.decode("ascii", "replace"), welcome):
        raise UsageError("who answers as node 0 does not know the secret (DSRUN_TOKEN)")
    return line
