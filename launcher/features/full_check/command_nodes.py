"""The nodes of dsrun-check: from a separate fleet, or from a hold."""

from __future__ import annotations

import os
import signal
from contextlib import nullcontext
from functools import partial

from ...common.errors import UsageError
from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager, ExitStack

    from ...backends.base import DialBack
    from ...cli.tool_parser import ToolCommand
    from ...common.loop import Loop
    from ...control.local_client import LocalClient
    from ...head.fleet.fleet import NodeFleet
    from ...head.fleet.node_connection import NodeConnection
    from ...head.job.start import PreparedStart
    from ...head.output.console import Console
    from ...specs.job import JobSpec
    from ..exec.runner_programs import NodePrograms

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end the command."""


class EndedBySignal(Exception):
    """A signal has ended the command."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class LoopWait:
    """Runs the loop until something is over."""

    def __init__(self, loop: Loop) -> None:
        """Let signals end the command; a SIGHUP that was ignored stays so (nohup)."""
        self.loop = loop
        self._ended_by = 0
        ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        loop.on_signals([one for one in ENDS if not (ignored and one == signal.SIGHUP)], self._stop)

    def until(self, begin: Callable[[Callable[[], None]], object]) -> None:
        """Call `begin` with a function to call at its end, and wait for that call.

        Raises:
            Ended: a signal has arrived earlier.
        """
        begin(self._finish)
        self.loop.run()
        if self._ended_by:
            raise EndedBySignal(self._ended_by)

    def _finish(self) -> None:
        self.loop.call_later(0.0, self.loop.stop)

    def _stop(self, number: int) -> None:
        self._ended_by = self._ended_by or number
        self.loop.stop()


class PreparedCheck(NamedTuple):
    """The facts known before any connection.

    Attributes:
        job: a job for the nodes, which is never started.
        start: its backends; None on a hold.
        client: the hold; None without one.
        missing: nodes of the hold that are lost, with the reasons.
    """

    job: JobSpec
    start: PreparedStart | None
    client: LocalClient | None
    missing: dict[str, str]

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of planning; a hold's lost nodes are found again."""
        return () if self.client is not None else self.job.origin.notes


def prepare(command: ToolCommand, stack: ExitStack) -> PreparedCheck:
    """Plan, and start this machine's own node launcher.

    Raises:
        UsageError: an option is invalid, or there is no such hold.
        NodeError: the nodes of the hold are lost.
    """
    from .plan import plan_check

    options = command.options
    if options.on is not None:
        return _held(command, stack)
    from ...backends import allocates
    from ...head.job import start

    if allocates(options.launcher) and "SLURM_JOB_ID" not in os.environ:
        name = options.launcher.lower()
        raise UsageError(
            f"--launcher {name}: this is not a Slurm job; run `salloc dsrun-check ...`"
        )
    job = plan_check(options, command.rest)
    return PreparedCheck(job, start.prepare(job.plan, job.settings), None, {})


def _held(command: ToolCommand, stack: ExitStack) -> PreparedCheck:
    from ..hold import plan_held as held
    from .plan import plan_check

    options = command.options
    held.check_given(options.on or "", command.given)
    client = stack.enter_context(held.find(options.on or ""))
    nodes = held.nodes_of(held.ask(client, {"do": "describe"}))
    return PreparedCheck(plan_check(options, command.rest, nodes), None, client, dict(nodes.lost))


class ReachedNodes(NamedTuple):
    """The nodes that were connected.

    Attributes:
        programs: runs programs on the nodes.
        missing: the reasons why other nodes are missing, by name.
        causes: returns the known reasons for later losses of nodes, by name.
    """

    programs: NodePrograms
    missing: dict[str, str]
    causes: Callable[[], dict[str, str]] = dict


def connect(
    prepared: PreparedCheck, waiting: LoopWait, console: Console, stack: ExitStack
) -> ReachedNodes:
    """Connect all nodes.

    Raises:
        DsrunError: the runner cannot listen for node launchers.
        Ended: a signal has arrived earlier.
    """
    job, start = prepared.job, prepared.start
    names = [node.host.name for node in job.plan.nodes]
    if prepared.client is not None:
        from ..exec.runner_hold_programs import HoldPrograms

        return ReachedNodes(HoldPrograms(waiting.loop, prepared.client, names), prepared.missing)
    assert start is not None
    from ...head.fleet.fleet import NodeFleet
    from ..exec.runner_fleet_connect import FleetConnect
    from ..exec.runner_fleet_programs import FleetPrograms

    nodes = sorted((node for part in start.parts for node in part.nodes), key=lambda n: n.rank)
    fleet = NodeFleet(nodes, waiting.loop, console.log, job.supervision.heartbeat_timeout)
    dial = stack.enter_context(_dial(fleet, start, job, console))
    stack.callback(_close, fleet)
    missing: dict[str, str] = {}

    def failed(node: NodeConnection, cause: str) -> None:
        missing[node.name] = cause

    begin = partial(fleet.connect, start.parts, dial)
    fleet_connect = FleetConnect(fleet, begin, job.supervision.start_timeout)
    waiting.until(lambda over: fleet_connect.start(failed, over))
    connected = [node for node in fleet_connect.nodes if node in fleet_connect.connected]

    def causes() -> dict[str, str]:
        return {node.name: cause for node, cause in fleet_connect.causes.items()}

    return ReachedNodes(FleetPrograms(fleet, connected), missing, causes)


def _dial(
    fleet: NodeFleet, start: PreparedStart, job: JobSpec, console: Console
) -> AbstractContextManager[DialBack | None]:
    if not any(part.backend.transport == "dial" for part in start.parts):
        return nullcontext()
    from ..join.runner import announced

    return announced(fleet, start.parts, job, console)


def _close(fleet: NodeFleet) -> None:
    from ...control.messages import SessionEnd

    fleet.close(SessionEnd(0, ""))
    fleet.close_at_once()
