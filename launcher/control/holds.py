"""Finds the hold that `--on NAME` names, and asks it."""

from __future__ import annotations

from contextlib import suppress

from ..common.errors import DsrunError, NodeError, UsageError
from ..common.stderr import tell
from . import local
from .local_client import connect, running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .local_client import LocalClient, Message

LAST = "last"
"""Names the hold that was started last."""

PATIENCE = 2.0
"""Seconds for a hold to say when it was started."""

SLOW = 2.0
"""Seconds without an answer after which the user learns what dsrun waits for."""


def find(name: str, option: str = "--on") -> LocalClient:
    """Connect to a hold of this user on this machine; `last` is the newest.

    Raises:
        UsageError: no hold has that name; `option` gave it.
        NodeError: the hold's process is stopped, and cannot answer.
    """
    client = _newest(option) if name == LAST else connect(local.HOLD, name)
    if client is None:
        names = ", ".join(running(local.HOLD))
        start = "; start one: dsrun-hold" if option == "--on" else ""
        known = f"running: {names}" if names else f"none is running{start}"
        raise UsageError(f"{option} {name}: no such hold on this machine; {known}")
    if _is_stopped(client.pid):
        with client:
            raise NodeError(
                f"{option} {name}: the hold does not answer: its process {client.pid} is stopped;"
                f" kill -CONT {client.pid} resumes it"
            )
    return client


def ask(client: LocalClient, request: Message) -> Message:
    """Return a hold's answer to a request of a command, whenever it comes.

    Raises:
        DsrunError: the answer is an error, or the hold has ended.
    """
    number = client.send(request)
    if not client.ready(SLOW):
        tell("waiting for the hold to answer; it is starting or stopped")
    return client.answer(number)


def _newest(option: str) -> LocalClient | None:
    names = running(local.HOLD)
    began = {name: since for name in names if (since := _since(name))}
    if names and not began:
        return find(names[-1], option)
    return connect(local.HOLD, max(began, key=began.__getitem__, default=""))


def _is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by SIGSTOP or Ctrl-Z (proc(5))."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] == b"T"
    except OSError:
        return False


def _since(name: str) -> float:
    """Return when a hold was started, in seconds since the epoch; 0 if it does not say."""
    client = connect(local.HOLD, name)
    if client is None:
        return 0.0
    with client, suppress(DsrunError, TypeError, ValueError):
        if _is_stopped(client.pid):
            return 0.0
        return float(client.ask({"do": "status"}, seconds=PATIENCE)["since"])
    return 0.0
