"""`--no_ssh` on node 0, where --master_addr is not its own: another may be node 0 there."""

from __future__ import annotations

import os
import time

from ...common.secret import control_port, shared_secret
from ...planning import master
from ...resources import source
from ...specs.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.options import Options
    from ...common.loop import Loop
    from ...specs.plan import Plan
    from ..run.job import Job

LOOK_AGAIN = 1.0
"""Seconds between two looks for another node 0."""


def look_for_another(job: Job, plan: Plan, loop: Loop, options: Options, pin: str) -> None:
    """On node 0: see, until the job runs, whether who answers as node 0 is somebody else.

    An address that is not this machine's may lead here all the same (a forwarded port, a service):
    what answers then has our own certificate, whose fingerprint is `pin`.
    """
    from threading import Thread

    first, port = master.first(plan, options), control_port(options, plan.master_port)
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
    from ...control import auth, frames, messages, tls
    from ...control.line import LineClosed

    try:
        line, seen = tls.dial([address], port, "", master.DIAL_TIMEOUT)
        line.send(messages.pack(frames.AUTH, auth.claim("0", secret, seen, plan)))
        line.wait_for_one(master.DIAL_TIMEOUT)
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
