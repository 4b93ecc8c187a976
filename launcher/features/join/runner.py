"""Node launchers that dial the runner: certificate, listener, and a look for a second node 0."""

from __future__ import annotations

import os
import time
from contextlib import closing, contextmanager

from ...backends.base import DialBack
from ...common import system
from ...common.errors import NodeError, UsageError
from ...common.network import addresses_towards, own_addresses
from ...common.poll import ready
from ...common.secret import WARNING, shared_secret
from ...control import tls
from ...head.fleet.authentication import SecretVerifier, TokenVerifier, target
from ...head.fleet.listener import Listener
from ...head.fleet.rejections import Rejections
from ...resources import source
from ...specs.backend import DIAL_TIMEOUT
from ...specs.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from ssl import SSLContext

    from ...backends.base import Part
    from ...common.loop import Loop
    from ...head.fleet.fleet import NodeFleet
    from ...head.job.control import JobControl
    from ...head.output.screen import Screen
    from ...specs.job import JobSpec
    from ...specs.plan import Plan


@contextmanager
def announced(
    fleet: NodeFleet, parts: Sequence[Part], spec: JobSpec, console: Screen
) -> Iterator[DialBack]:
    """Listen for node launchers that an engine starts.

    Each node launcher prints a token on the engine's output, and presents it when it dials.

    Raises:
        DsrunError: the runner cannot listen.
    """
    context, pin = tls.make_certificate()
    nodes = [node for part in parts if part.backend.transport == "dial" for node in part.nodes]
    returns = spec.elastic is not None or spec.held
    verifier = TokenVerifier(nodes, fleet.on_stream, fleet.on_session_end, returns=returns)
    addresses = _towards(fleet.loop, [node.host.name for node in nodes]) or ("127.0.0.1",)
    port = spec.dial_in.port or 0
    with _open(fleet.loop, context, addresses, port, verifier, console) as listener:
        fleet.on_token = verifier.announce
        yield DialBack(target(addresses, listener.port), pin, verifier.again)


def _towards(loop: Loop, hosts: Sequence[str]) -> tuple[str, ...]:
    """Return this machine's addresses in the order of `addresses_towards`.

    A dead name server takes seconds for each name, and the loop, which handles signals, does not
    run yet. After a signal, the addresses come in any order.
    """
    found: list[tuple[str, ...]] = []
    done, end = system.pipe2(os.O_CLOEXEC)

    def check() -> None:
        try:
            found.append(addresses_towards(hosts))
        finally:
            system.close(end)

    system.thread(check, "addresses")
    ready([done, *([loop.signals] if loop.signals >= 0 else [])], None)
    system.close(done)
    return found[0] if found else own_addresses()


@contextmanager
def shared(fleet: NodeFleet, spec: JobSpec, console: Screen, job: JobControl) -> Iterator[None]:
    """Listen on node 0 of a --no_ssh job; the other nodes dial in with a shared secret.

    Raises:
        DsrunError: the runner cannot listen.
    """
    secret = shared_secret(spec.dial_in.token_file)
    if not secret:
        console.log(WARNING, "warning")
    context, pin = tls.make_certificate()
    verifier = SecretVerifier(spec.plan, secret, pin, fleet.on_stream, job.call_off)
    port = spec.dial_in.known_port(spec.plan.master_port)
    with _open(fleet.loop, context, ("",), port, verifier, console):
        look_for_another(spec, fleet.loop, job, pin)
        yield


@contextmanager
def _open(
    loop: Loop,
    context: SSLContext,
    addresses: Sequence[str],
    port: int,
    verifier: TokenVerifier | SecretVerifier,
    console: Screen,
) -> Iterator[Listener]:
    """Open the listener. If the start fails while it is open, the error names rejected callers."""
    rejections = Rejections(loop, lambda text: console.log(text, "warning"))
    listener = _listener(loop, context, addresses, port, verifier, rejections, console)
    if isinstance(verifier, TokenVerifier):
        verifier.on_token = listener.recheck
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
    verifier: TokenVerifier | SecretVerifier,
    rejections: Rejections,
    console: Screen,
) -> Listener:
    try:
        return Listener(loop, context, addresses, port, verifier, rejections.add, console.log)
    except OSError as error:
        from ...common.port_words import refusal

        shared = isinstance(verifier, SecretVerifier)
        more = " (with --no_ssh only one process may have --node_rank 0)" if shared else ""
        raise UsageError(
            f"control port {port}: {refusal(port, error)}; choose another with --control_port{more}"
        ) from None


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
