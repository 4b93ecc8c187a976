"""A job whose node launchers dial in: certificate, door, and who may enter."""

from __future__ import annotations

from ..addresses import addresses_towards
from ..backends.base import Dial
from ..control import tls
from ..errors import UsageError
from ..secret import WARNING, control_port, shared_secret
from .dialling import Announced, Sharing, target
from .door import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ssl import SSLContext

    from ..backends.base import Part
    from ..loop import Loop
    from ..options import Options
    from ..plan import Node, Plan
    from .console import Console
    from .job import Job
    from .report import Report

    Parts = Sequence[Part]


def run_announced(
    job: Job, parts: Parts, dialling: Sequence[Node], loop: Loop, options: Options
) -> Report:
    """Run a job whose node launchers an engine starts; they dial with tokens that it shows.

    Raises:
        DsrunError: the job cannot be started.
    """
    context, pin = tls.make_certificate()
    who = Announced(dialling, job.on_line, job.on_session_end)
    addresses = addresses_towards([node.host.name for node in dialling]) or ("127.0.0.1",)
    door = _open(loop, context, addresses, options.control_port or 0, who)
    who.door = door
    try:
        dial = Dial(target(addresses, door.port), pin, who.again)
        return job.run(parts, dial, who.announce)
    finally:
        door.close()


def run_shared(
    job: Job,
    parts: Parts,
    plan: Plan,
    loop: Loop,
    options: Options,
    console: Console,
    opened: Callable[[str], None],
) -> Report:
    """Run a job of --no_ssh on node 0: the others dial its control port and share a secret.

    `opened` is given the certificate's fingerprint once they can.

    Raises:
        DsrunError: the job cannot be started.
    """
    secret = shared_secret(options)
    if not secret:
        console.say(WARNING, "warning")
    context, pin = tls.make_certificate()

    def warn(text: str) -> None:
        console.say(text, "warning")

    who = Sharing(plan, secret, pin, job.on_line, warn, job.call_off)
    port = control_port(options, plan.master_port)
    door = _open(loop, context, ("",), port, who)
    opened(pin)
    try:
        return job.run(parts, None, lambda _node, _token: None)
    finally:
        door.close()


def _open(
    loop: Loop,
    context: SSLContext,
    addresses: Sequence[str],
    port: int,
    who: Announced | Sharing,
) -> Door:
    try:
        return Door(loop, context, addresses, port, who.verify, who.enter)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        alone = " (with --no_ssh one process alone is --node_rank 0)"
        more = alone if isinstance(who, Sharing) else ""
        raise UsageError(
            f"control port {port}: {reason}; --control_port names another{more}"
        ) from None
