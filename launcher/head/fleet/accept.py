"""A job whose node launchers dial in: certificate, door, and who may enter."""

from __future__ import annotations

from contextlib import contextmanager

from ...backends.base import Dial
from ...common.errors import NodeError, UsageError
from ...common.network import addresses_towards
from ...common.secret import WARNING, control_port, shared_secret
from ...control import tls
from ...planning.elastic import is_elastic
from .authentication import Announced, Sharing, target
from .listener import Door
from .refusals import Refusals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from ssl import SSLContext

    from ...backends.base import Part
    from ...cli.options import Options
    from ...common.loop import Loop
    from ...specs.plan import Node, Plan
    from ..output.console import Console
    from ..report.report import Report
    from ..run.job import Job

    Parts = Sequence[Part]


def run_announced(
    job: Job,
    parts: Parts,
    dialling: Sequence[Node],
    loop: Loop,
    options: Options,
    console: Console,
) -> Report:
    """Run a job whose node launchers an engine starts; they dial with tokens that it shows.

    Raises:
        DsrunError: the job cannot be started.
    """
    context, pin = tls.make_certificate()
    who = Announced(dialling, job.on_line, job.on_session_end, returns=is_elastic(options))
    addresses = addresses_towards([node.host.name for node in dialling]) or ("127.0.0.1",)
    with _open(loop, context, addresses, options.control_port or 0, who, console) as door:
        dial = Dial(target(addresses, door.port), pin, who.again)
        return job.run(parts, dial, who.announce)


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
    who = Sharing(plan, secret, pin, job.on_line, job.call_off)
    with _open(loop, context, ("",), control_port(options, plan.master_port), who, console):
        opened(pin)
        return job.run(parts, None, lambda _node, _token: None)


@contextmanager
def _open(
    loop: Loop,
    context: SSLContext,
    addresses: Sequence[str],
    port: int,
    who: Announced | Sharing,
    console: Console,
) -> Iterator[Door]:
    """Open the door; a start that fails meanwhile tells of those who were rejected."""
    refusals = Refusals(loop, lambda text: console.say(text, "warning"))
    door = who.door = _door(loop, context, addresses, port, who, refusals)
    try:
        yield door
    except NodeError as error:
        raise NodeError("\n  ".join(filter(None, (str(error), refusals.summary)))) from None
    finally:
        door.close()
        refusals.tell()


def _door(
    loop: Loop,
    context: SSLContext,
    addresses: Sequence[str],
    port: int,
    who: Announced | Sharing,
    refusals: Refusals,
) -> Door:
    try:
        return Door(loop, context, addresses, port, who.verify, who.enter, refusals.add)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        alone = " (with --no_ssh one process alone is --node_rank 0)"
        more = alone if isinstance(who, Sharing) else ""
        raise UsageError(
            f"control port {port}: {reason}; --control_port names another{more}"
        ) from None
