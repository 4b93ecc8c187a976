"""`--no_ssh` on a node other than the first: dial node 0, and serve its job as a node launcher."""

from __future__ import annotations

import os
import sys
import time

from .errors import LostError, UsageError
from .secret import control_port, shared_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .control.tls import TlsLine
    from .options import Options
    from .plan import Plan

AGAIN = 0.25
"""Seconds between two tries while node 0 does not listen yet."""

SAY_AFTER = 3.0
"""Seconds of waiting until it is worth a line."""

DIAL_TIMEOUT = 5.0
WELCOME_TIMEOUT = 30.0
"""Seconds for node 0 to show in turn that it knows the secret."""


def join(plan: Plan, options: Options) -> int:
    """Take part in the job of node 0; returns the job's exit code.

    Raises:
        LostError: node 0 cannot be reached in time, or turns this node away.
    """
    node = plan.nodes[options.node_rank or 0]
    first = options.master_addr or plan.nodes[0].host.name
    line = _dial(first, control_port(options, plan.master_port), plan, options)
    sys.stderr.write(
        f"dsrun: node {node.rank} of {len(plan.nodes)} has joined; {first} shows all output\n"
    )
    sys.stderr.flush()
    return _serve(line)


def _dial(address: str, port: int, plan: Plan, options: Options) -> TlsLine:
    """Dial until node 0 answers; it may be started later than this one."""
    from .control import tls

    secret = shared_secret(options)
    began = time.monotonic()
    told = False
    while True:
        try:
            line, seen = tls.dial([address], port, "", DIAL_TIMEOUT)
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
    from .control import auth, frames, messages
    from .head.dialling import digest

    rank = str(options.node_rank)
    proof = auth.prove(secret, seen, f"node {rank}")
    line.send(messages.pack(frames.AUTH, auth.Claim(rank, proof, digest(plan))))
    welcome = auth.prove(secret, seen, f"runner {rank}")
    answer = line.wait_for_one(WELCOME_TIMEOUT)
    if answer is None or answer[0] != frames.WELCOME:
        raise LostError(
            "node 0 turned this node away: another DSRUN_TOKEN, another command line, or a"
            " --node_rank that is there already; node 0 says which"
        )
    if not auth.same(answer[1].decode("ascii", "replace"), welcome):
        raise UsageError("who answers as node 0 does not know the secret (DSRUN_TOKEN)")
    return line


def _serve(line: TlsLine) -> int:
    """Become guard and node launcher; the guard's exit code is the job's."""
    from .launch import serve_line

    os.environ.pop("DSRUN_TOKEN", None)
    return serve_line(line)
