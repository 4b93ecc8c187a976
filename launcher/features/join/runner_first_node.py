"""`--no_ssh` on node 0: check that no other machine is node 0 as well."""

from __future__ import annotations

import os
import time
from contextlib import closing

from ...common.secret import shared_secret
from ...resources import source
from ...specs.backend import DIAL_TIMEOUT
from ...specs.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...common.loop import Loop
    from ...head.job.control import JobControl
    from ...specs.job import JobSpec
    from ...specs.plan import Plan

LOOK_AGAIN = 1.0
"""Seconds between two attempts to reach another node 0."""


def look_for_another(spec: JobSpec, loop: Loop, job: JobControl, pin: str) -> None:
    """On node 0, check whether another machine answers at --master_addr, until workers run.

    A foreign address may still lead here (a forwarded port, a service). The answer then shows our
    own certificate, which has the fingerprint `pin`.
    """
    from threading import Thread

    plan = spec.plan
    first = spec.dial_in.first
    port = spec.dial_in.known_port(plan.master_port)
    secret = shared_secret(spec.dial_in.token_file)

    reason = (
        f"--node_rank 0 on {os.uname().nodename}, but another machine answers as node 0 at"
        f" {first}:{port}; give each node its own --node_rank, 0 to {len(plan.nodes) - 1}"
    )

    def check() -> None:
        seen = ""
        while not seen and not (job.started or job.ending) and not _is_own(first):
            seen = _call(first, port, secret, plan)
            if not seen:
                time.sleep(LOOK_AGAIN)
        if seen not in {"", pin}:
            loop.call_soon_threadsafe(lambda: job.call_off(reason))

    if len(plan.nodes) > 1:
        loop.open_to_threads()
        Thread(target=check, daemon=True).start()


def _call(address: str, port: int, secret: str, plan: Plan) -> str:
    """Dial as node 0; return the fingerprint of the certificate found, "" without an answer."""
    from ...control import auth, frames, messages, tls
    from ...control.stream import StreamClosed

    try:
        line, seen = tls.dial([address], port, "", DIAL_TIMEOUT)
        with closing(line):
            line.send(messages.pack(frames.AUTH, auth.credentials("0", secret, seen, plan)))
            line.wait_for_one(DIAL_TIMEOUT)
    except (tls.CannotDial, StreamClosed, ValueError):
        return ""
    return seen


def _is_own(name: str) -> bool:
    """Return whether a name certainly belongs to this machine."""
    import socket

    try:
        addresses = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return source.is_here(Host(name))
    return any(source.own_address(str(address[0])) for *_, address in addresses)
