"""`--no_ssh`: a node other than the first dials node 0, and serves its job as a node launcher.

Node 0 dials as well where --master_addr is not its own: another may be node 0 there.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from ..common.errors import LostError, NodeError, UsageError
from ..common.secret import control_port, shared_secret
from ..resources import source
from ..specs.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options
    from ..common.loop import Loop
    from ..control.tls import TlsLine
    from ..head.run.job import Job
    from ..specs.plan import Plan

AGAIN = 0.25
"""Seconds between two tries while node 0 does not listen yet."""

LOOK_AGAIN = 1.0
"""Seconds between two looks of node 0 for another one."""

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
    first = _first(plan, options)
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
    return _serve(line)


def look_for_another(job: Job, plan: Plan, loop: Loop, options: Options, pin: str) -> None:
    """On node 0: see, until the job runs, whether who answers as node 0 is somebody else.

    An address that is not this machine's may lead here all the same (a forwarded port, a service):
    what answers then has our own certificate, whose fingerprint is `pin`.
    """
    from threading import Thread

    first, port = _first(plan, options), control_port(options, plan.master_port)
    secret = shared_secret(options)

    reason = (
        f"--node_rank 0 on {os.uname().nodename}, but another answers as node 0 at {first}:{port};"
        f" give every node its own, 0 to {len(plan.nodes) - 1}"
    )

    def look() -> None:
        seen = ""
        while not seen and job.starting and not _is_own(first):
            seen = _call(first, port, secret, plan)
            if not seen:
                time.sleep(LOOK_AGAIN)
        if seen not in {"", pin}:
            loop.post(lambda: job.call_off(reason))

    if len(plan.nodes) > 1:
        loop.open_to_threads()
        Thread(target=look, daemon=True).start()


def _call(address: str, port: int, secret: str, plan: Plan) -> str:
    """Say there that this is node 0; return the fingerprint that was seen, "" for none."""
    from ..control import tls
    from ..control.line import LineClosed

    try:
        line, seen = tls.dial([address], port, "", DIAL_TIMEOUT)
        line.send(_claim("0", secret, seen, plan))
        line.wait_for_one(DIAL_TIMEOUT)
        line.close()
    except (tls.CannotDial, LineClosed, ValueError):
        return ""
    return seen


def _is_own(name: str) -> bool:
    """Tell whether a name leads to this machine, as far as is known."""
    import socket

    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return source.is_here(Host(name))
    return any(source.own_address(str(address[0])) for *_, address in found)


def _first(plan: Plan, options: Options) -> str:
    """Return where node 0 is."""
    return options.master_addr or plan.nodes[0].host.name


def _is_loopback(name: str) -> bool:
    """Tell whether a name means whichever machine it is said on: it may be a tunnel to node 0."""
    return name in {source.THIS_MACHINE, "::1"} or name.startswith("127.")


def _claim(rank: str, secret: str, seen: str, plan: Plan) -> bytes:
    """Return the AUTH frame: the secret proved over the certificate that was seen."""
    from ..control import auth, frames, messages
    from ..head.fleet.authentication import digest

    proof = auth.prove(secret, seen, f"node {rank}")
    return messages.pack(frames.AUTH, auth.Claim(rank, proof, digest(plan), os.uname().nodename))


def _dial(address: str, port: int, plan: Plan, options: Options) -> TlsLine:
    """Dial until node 0 answers; it may be started later than this one."""
    from ..control import tls

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
    from ..control import auth, frames
    from ..control.line import LineClosed

    rank = str(options.node_rank)
    welcome = auth.prove(secret, seen, f"runner {rank}")
    with suppress(LineClosed):
        line.send(_claim(rank, secret, seen, plan))
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


def _serve(line: TlsLine) -> int:
    """Become guard and node launcher; the guard's exit code is the job's."""
    from ..launch import serve_line

    os.environ.pop("DSRUN_TOKEN", None)
    return serve_line(line)
