"""Hold nodes from their connection to their release."""

from __future__ import annotations

import gc
import os
import signal
from contextlib import nullcontext, suppress

from ...common.loop import Loop
from ...common.records import NamedTuple
from ...control.messages import SessionEnd
from ...head.fleet.fleet import NodeFleet
from ...head.job.start import prepare
from ...head.output.console import Console
from ..jobs.runner_server import LocalServer
from .runner import Hold, HoldPhase
from .runner_requests import verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from ...backends.base import DialBack, Part
    from ...common.detach import Parent
    from ...head.job.start import PreparedStart
    from ...specs.hold import HoldSpec
    from ...specs.job import JobSpec


class HoldOwner(NamedTuple):
    """The program that owns a hold.

    Attributes:
        line: a socket connected to the program.
        pidfd: readable once the program has ended; its forks may keep the socket open.
    """

    line: socket
    pidfd: int


ENDS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""Signals that release all nodes."""

IDLE = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT}
"""Signals without effect: by default they would end this process, and all runs."""


def serve(
    spec: HoldSpec, line: socket, parent: Parent | None = None, owner: HoldOwner | None = None
) -> int:
    """Hold nodes until they are released; return the exit code.

    Args:
        spec: the specification.
        line: the source of requests: a listening socket, or a socket connected to one caller. The
            hold ends with this caller.
        parent: told once the nodes can be used; the hold ends if the parent ends before that.
        owner: the program that owns the hold; the hold ends with it.

    Raises:
        DsrunError: the nodes cannot be held; nothing is left running on them.
    """
    job = spec.job
    start = prepare(job.plan, job.settings)  # before there is a thread, because it forks
    loop = Loop()
    console = Console(loop, colour=job.output.color, level=job.output.level)
    fleet = _fleet(job, start, loop, lambda *said: hold.log(*said))  # noqa: PLW0108  # no hold yet
    hold = Hold(spec, fleet, console)
    for note in job.origin.notes:
        hold.log(note)
    if parent is None and owner is None:
        _stay_with_user(hold)
    servers = _servers(hold, line, owner)
    try:
        _handle_signals(hold)
        hold.when_ready(_freeze)
        if parent is not None:
            _watch(parent, hold)
        _serve(hold, start)
    finally:
        for server in servers:
            server.close()
        console.close()
    if hold.error is not None:
        raise hold.error
    return hold.code


def _fleet(
    job: JobSpec, start: PreparedStart, loop: Loop, log: Callable[[str, str], None]
) -> NodeFleet:
    nodes = sorted((node for part in start.parts for node in part.nodes), key=lambda n: n.rank)
    return NodeFleet(nodes, loop, log, job.supervision.heartbeat_timeout, shares=True)


def _freeze() -> None:
    """Exempt current objects from the garbage collections after runs: they live to the end."""
    gc.collect()
    gc.freeze()


def _servers(hold: Hold, line: socket, owner: HoldOwner | None) -> list[LocalServer]:
    """Serve requests; the hold ends when a caller on an already connected line disconnects."""
    lines = [line] if owner is None else [line, owner.line]
    servers = [LocalServer(hold.loop, one, verbs(hold), hold.log) for one in lines]
    for caller in [caller for server in servers for caller in server.callers]:
        caller.on_close.append(lambda: hold.stop(signal.SIGHUP))
    if owner is not None:
        _stop_with(hold, owner.pidfd)
    return servers


def _stop_with(hold: Hold, pidfd: int) -> None:
    """End the hold when the process of a pidfd ends."""

    def gone() -> None:
        hold.loop.remove(pidfd)
        hold.log("the program that started this hold has exited: releasing all nodes")
        hold.stop(signal.SIGHUP)

    hold.loop.add_reader(pidfd, gone)


def _stay_with_user(hold: Hold) -> None:
    """Log how to end a hold, and end it with its shell, su or ssh: not all send SIGHUP."""
    hold.when_ready(lambda: _say_how_to_end(hold))
    parent = os.getppid()
    if parent > 1 and _in_foreground():
        with suppress(ProcessLookupError):
            _stop_with(hold, os.pidfd_open(parent))


def _in_foreground() -> bool:
    """Return whether the user waits for this process: not under nohup, and not behind `&`.

    A shell with job control removes jobs behind `&` from the terminal's foreground. Other shells
    make them ignore SIGQUIT (POSIX, 2.11).
    """
    if signal.SIG_IGN in {signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGQUIT)}:
        return False
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return True  # there is no terminal


def _handle_signals(hold: Hold) -> None:
    """Install the signal handlers; a SIGHUP that was ignored at the start stays ignored (nohup)."""
    kept = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    ends = ENDS - {signal.SIGHUP} if kept else ENDS

    def act(number: int) -> None:
        if number in ends:
            hold.stop(number)
        elif number == signal.SIGTSTP:
            hold.fleet.suspend()

    # A hold in the background of a terminal lets its runs print there, too.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    hold.loop.on_signals({*ends, *IDLE, signal.SIGTSTP}, act)


def _say_how_to_end(hold: Hold) -> None:
    if hold.phase is HoldPhase.SERVING:
        hold.log("Ctrl-C releases the nodes")


def _watch(parent: Parent, hold: Hold) -> None:
    """Tell the parent once the nodes can be used; end the hold if the parent ends before that."""
    hold.loop.add_reader(parent.fileno(), lambda: hold.stop(signal.SIGHUP))

    def detach() -> None:
        hold.loop.remove(parent.fileno())
        parent.detach()

    hold.when_ready(lambda: hold.console.flush(detach) if hold.phase is HoldPhase.SERVING else None)


def _serve(hold: Hold, start: PreparedStart) -> None:
    with _dial(hold, start.parts, hold.console) as dial:
        try:
            hold.start()
            hold.fleet.connect(start.parts, dial)
            hold.loop.run()
            hold.fleet.close(SessionEnd(hold.code, ""))
        finally:
            hold.fleet.close_at_once()


def _dial(
    hold: Hold, parts: Sequence[Part], console: Console
) -> AbstractContextManager[DialBack | None]:
    """Return a context with a listener if node launchers dial in, else an empty one."""
    if not any(part.backend.transport == "dial" for part in parts):
        return nullcontext()
    from ..join.runner import announced

    return announced(hold.fleet, parts, hold.spec.job, console)
