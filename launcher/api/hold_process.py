"""The process behind a fleet of a Python program: a hold that ends with the program.

It first receives the nodes to hold. Then it serves requests: from its program over the inherited
socket, and from commands such as `dsrun --on`, over a new socket for every run.
"""

from __future__ import annotations

import os
from _socket import MSG_WAITALL, socket
from contextlib import suppress

from ..common import entry
from ..common.errors import DsrunError, UsageError, reason
from ..control import frames, local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..specs.hold import HoldSpec

PATIENCE = 60.0
"""Seconds for the program to send the nodes to hold."""

FAILED = "HoldFailed"
"""The event that says why nothing can be held."""


def _serve(argv: list[str]) -> int:
    """Hold nodes for the program with this pid, at the other end of this descriptor."""
    fd, pid = map(int, argv)
    os.set_inheritable(fd, False)
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return 1
    line = socket(fileno=fd)
    line.settimeout(PATIENCE)
    if os.getppid() != pid:
        return 1
    try:
        return _hold(line, pidfd)
    except DsrunError as error:
        failed = {"event": FAILED, "error": str(error), "code": error.exit_code}
        if line.fileno() >= 0:
            line.setblocking(True)
            with suppress(OSError):
                line.sendall(frames.pack_json(frames.EVENT, failed))
        return error.exit_code


def _hold(line: socket, pidfd: int) -> int:
    spec = _received(line)
    from ..features.hold.runner_serve import HoldOwner, serve

    try:
        listener = local.listener(local.HOLD, spec.name)
    except OSError as error:
        raise UsageError(
            f"name {spec.name}: taken on this machine ({reason(error)}); give another"
        ) from None
    return serve(spec, listener, owner=HoldOwner(line, pidfd))


def _received(line: socket) -> HoldSpec:
    """Return the nodes that the program wants to hold.

    Raises:
        UsageError: the program has not sent the nodes in time, or they are invalid.
    """
    from ..specs import codec
    from ..specs.hold import HoldSpec

    try:
        _, body = frames.read_one(lambda size: line.recv(size, MSG_WAITALL))
        request = frames.unpack_json(body)
    except (OSError, frames.BadFrame):
        raise UsageError("invalid request to hold nodes") from None
    return codec.decode(HoldSpec, request.get("spec"))


def start() -> None:
    """Run as the whole process."""
    entry.start(_serve)
