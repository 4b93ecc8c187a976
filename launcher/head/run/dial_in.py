"""A job whose node launchers dial in: certificate, listener, and who may enter."""

from __future__ import annotations

from contextlib import contextmanager

from ...backends.base import Dial
from ...common.errors import NodeError, UsageError, reason
from ...common.network import addresses_towards
from ...common.secret import WARNING, shared_secret
from ...control import tls
from ..fleet.authentication import SecretVerifier, TokenVerifier, target
from ..fleet.listener import Listener
from ..fleet.rejections import Rejections
from .first_node import look_for_another
from .launch import launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from ssl import SSLContext

    from ...backends.base import Part
    from ...common.loop import Loop
    from ...specs.job import JobSpec
    from ..fleet.fleet import Fleet
    from ..output.console import Console
    from ..report.report import Report
    from .run import Run


def launch_announced(run: Run, parts: Sequence[Part], console: Console) -> Report:
    """Launch a run whose node launchers an engine starts.

    Raises:
        DsrunError: the job cannot be started.
    """
    with announced(run.fleet, parts, run.spec, console) as dial:
        return launch(run, parts, dial)


@contextmanager
def announced(
    fleet: Fleet, parts: Sequence[Part], spec: JobSpec, console: Console
) -> Iterator[Dial]:
    """Listen for node launchers that an engine starts; they dial with tokens that it shows.

    Raises:
        DsrunError: there is no way to listen.
    """
    context, pin = tls.make_certificate()
    dialling = [node for part in parts if part.backend.transport == "dial" for node in part.nodes]
    returns = spec.elastic is not None
    who = TokenVerifier(dialling, fleet.on_stream, fleet.on_session_end, returns=returns)
    addresses = addresses_towards([node.host.name for node in dialling]) or ("127.0.0.1",)
    with _open(fleet.loop, context, addresses, spec.dial_in.port or 0, who, console) as listener:
        fleet.on_token = who.announce
        yield Dial(target(addresses, listener.port), pin, who.again)


def launch_shared(run: Run, parts: Sequence[Part], console: Console) -> Report:
    """Launch a run of --no_ssh on node 0: the others dial its control port and share a secret.

    Raises:
        DsrunError: the job cannot be started.
    """
    spec = run.spec
    secret = shared_secret(spec.dial_in.token_file)
    if not secret:
        console.log(WARNING, "warning")
    context, pin = tls.make_certificate()
    who = SecretVerifier(spec.plan, secret, pin, run.fleet.on_stream, run.call_off)
    port = spec.dial_in.known_port(spec.plan.master_port)
    with _open(run.loop, context, ("",), port, who, console):
        look_for_another(run, pin)
        return launch(run, parts)


@contextmanager
def _open(
    loop: Loop,
    context: SSLContext,
    addresses: Sequence[str],
    port: int,
    who: TokenVerifier | SecretVerifier,
    console: Console,
) -> Iterator[Listener]:
    """Open the listener; a start that fails meanwhile tells of those who were rejected."""
    rejections = Rejections(loop, lambda text: console.log(text, "warning"))
    listener = _listener(loop, context, addresses, port, who, rejections)
    if isinstance(who, TokenVerifier):
        who.on_token = listener.recheck
    try:
        yield listener
    except NodeError as error:
        raise NodeError("\n  ".join(filter(None, (str(error), rejections.summary)))) from None
    finally:
        listener.close()
        rejections.flush()


def _listener(
    loop: Loop,
    context: SSLContext,
    addresses: Sequence[str],
    port: int,
    who: TokenVerifier | SecretVerifier,
    rejections: Rejections,
) -> Listener:
    try:
        return Listener(loop, context, addresses, port, who, rejections.add)
    except OSError as error:
        alone = " (with --no_ssh one process alone is --node_rank 0)"
        more = alone if isinstance(who, SecretVerifier) else ""
        raise UsageError(
            f"control port {port}: {reason(error)}; --control_port names another{more}"
        ) from None
