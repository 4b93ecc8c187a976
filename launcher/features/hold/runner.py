"""Nodes that stay connected, and the runs that use them, one after another or side by side."""

from __future__ import annotations

import os
import signal
from collections import deque
from enum import Enum

from ...backends import BACKENDS
from ...common import system
from ...common.errors import NodeError
from ...common.wording import counted
from ...specs.host import all_devices
from .runner_nodes import HeldNodes
from .runner_schedule import Schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.errors import DsrunError
    from ...common.loop import Timer
    from ...head.fleet.fleet import NodeFleet
    from ...head.output.console import Console
    from ...specs.hold import HoldSpec
    from ...specs.host import Slot
    from ...specs.plan import Plan
    from .runner_exec_requests import HeldCommands
    from .runner_held_run import HeldRun

KEPT = 200
"""Number of own message lines kept for later requests."""


class HoldPhase(Enum):
    """The phase of a hold.

    Attributes:
        STARTING: the nodes are being connected and surveyed.
        SERVING: runs can use the nodes.
        ENDING: runs are being stopped, or the start has failed; no run starts.
    """

    STARTING = "starting"
    SERVING = "serving"
    ENDING = "ending"


class Hold:
    """A hold: its nodes, and their users.

    Attributes:
        fleet: the connections to the nodes.
        nodes: the nodes, with their facts and losses.
        since: the start of the hold, in seconds since the epoch.
        runs: running and waiting runs by job id.
        console: the console for messages.
        commands: commands on the nodes beside runs; None before the first one.
        messages: the last message lines.
        error: the reason why the hold could not start; None if it could.
        code: the exit code, set at the end.
    """

    def __init__(self, spec: HoldSpec, fleet: NodeFleet, console: Console) -> None:
        self.spec, self.fleet, self.loop = spec, fleet, fleet.loop
        self.phase = HoldPhase.STARTING
        self.since = system.time()
        self.runs: dict[str, HeldRun] = {}
        self.messages: deque[str] = deque(maxlen=KEPT)
        self.error: DsrunError | None = None
        self.code = 0
        self.nodes = HeldNodes(spec, fleet, self.log)
        if BACKENDS[spec.job.plan.launcher].allocates:
            self.nodes.watch(self._ask_allocation)
        self._asks = False
        self.console = console
        self.commands: HeldCommands | None = None
        self._schedule = Schedule()
        self._waiting: list[Callable[[], None]] = []
        self._users = 0
        self._idle: Timer | None = None

    def log(self, text: str, level: str = "info") -> None:
        """Print a message for the user, and keep it for later requests."""
        self.messages += text.split("\n")
        self.console.log(text, level)

    # -- the start --------------------------------------------------------------------------

    def start(self) -> None:
        """Survey all nodes as they connect."""
        self.nodes.start(self.console, self._on_survey)

    def when_ready(self, call: Callable[[], None]) -> None:
        """Call a function once the start has succeeded or failed; see `phase`."""
        if self.phase is HoldPhase.STARTING:
            self._waiting.append(call)
        else:
            call()

    def _on_survey(self) -> None:
        if self.phase is HoldPhase.STARTING:
            self.error = self.nodes.keep()
            self.phase = HoldPhase.ENDING if self.error else HoldPhase.SERVING
        if self.phase is HoldPhase.SERVING:
            self.log(self._ready_line())
            self._rest()
        else:
            self.loop.stop()
        calls, self._waiting = self._waiting, []
        for call in calls:
            call()

    def _ready_line(self) -> str:
        name, hosts = self.spec.name, self.nodes.hosts
        slots = sum(len(host.slots or ()) for host in hosts)
        return (
            f"holding {counted(len(hosts), 'node')} with {counted(slots, 'slot')} as {name};"
            f" use: dsrun --on={name} SCRIPT; release: dsrun-hold --release {name}"
        )

    # -- users of the nodes ------------------------------------------------------------------

    def enter(self) -> None:
        """Count one more user of the nodes; they are not released while there is one."""
        self._users += 1
        if self._idle is not None:
            self._idle.cancel()

    def release(self) -> None:
        """Count one user of the nodes less."""
        self._users -= 1
        self._rest()

    def _rest(self) -> None:
        if self.phase is HoldPhase.ENDING and not self._users:
            self.loop.stop()
        elif not self._users and self.spec.idle_timeout:
            self._idle = self.loop.call_later(self.spec.idle_timeout, self._expire)

    def _expire(self) -> None:
        self.log(f"no run for {self.spec.idle_timeout:g} s: releasing all nodes")
        self.stop(0)

    # -- its allocation ---------------------------------------------------------------------

    def _ask_allocation(self) -> None:
        """Check whether the allocation has ended; if so, lost nodes never come back."""
        if self._asks or self.phase is not HoldPhase.SERVING:
            return
        from ..schedulers.runner_allocation_end import ask

        self._asks = True
        ask(self.loop, os.environ, self._on_allocation)

    def _on_allocation(self, end: str) -> None:
        self._asks = False
        if end and self.phase is HoldPhase.SERVING:
            self.log(f"{end}: releasing all nodes", "warning")
            self.stop(signal.SIGTERM)

    # -- runs -------------------------------------------------------------------------------

    def check(self, plan: Plan, *, waits: bool) -> None:
        """Check that a run can use the nodes now, or once their slots are free if it `waits`.

        Raises:
            UsageError: a host, or one of its slots, is not held.
            NodeError: a host is missing, slots are in use, or the hold is ending.
        """
        if self.phase is not HoldPhase.SERVING:
            raise NodeError(f"hold {self.spec.name} is {self.phase.value}")
        self.nodes.check(plan)
        blockers = self._schedule.blockers(places(plan))
        if blockers and not waits:
            users = ", ".join(blockers)
            raise NodeError(f"slots are in use by job {users} (--on_busy wait waits for them)")

    def add(self, run: HeldRun) -> None:
        """Start a run, or queue it until its slots are free."""
        if not self.runs:
            self.fleet.engine_end = None  # an old end explains no loss of this run
        self.enter()
        self.runs[run.job_id] = run
        wanted = places(run.spec.plan)
        blockers = self._schedule.blockers(wanted)
        if self._schedule.ask(run.job_id, wanted):
            run.start()
        else:
            run.wait(blockers)

    def free(self, run: HeldRun) -> bool:
        """Free the slots of a run that has ended or waits no longer; start runs that waited.

        Return False if the run neither had slots nor waited: it was rejected.
        """
        if self.runs.pop(run.job_id, None) is None:
            return False
        for job in self._schedule.release(run.job_id):
            self.runs[job].start()
        return True

    def taken(self, host: str) -> bool:
        """Return whether a run uses slots of a host."""
        return bool(self._schedule.taken(host))

    def waits(self, run: HeldRun) -> bool:
        """Return whether a run waits for its slots."""
        return run.job_id in self._schedule.waiting

    # -- the end ----------------------------------------------------------------------------

    def stop(self, number: int) -> None:
        """Stop all runs, then release the nodes; `number` is the signal that caused this, or 0."""
        if self.phase is not HoldPhase.ENDING:
            self.code = 128 + number if number else 0
        starting, self.phase = self.phase is HoldPhase.STARTING, HoldPhase.ENDING
        self.nodes.close()
        if starting:
            self.nodes.cancel(number)
            return
        for run in tuple(self.runs.values()):
            if run.job_id in self.runs:  # else it failed to start when an earlier run ended
                run.stop_with_hold(number)
        if self.commands is not None:
            self.commands.stop()
        if not self._users:
            self.loop.stop()


def places(plan: Plan) -> dict[str, Sequence[Slot]]:
    """Return the devices of a plan by host."""
    return {node.host.name: all_devices(node.slots or ()) for node in plan.nodes}
