"""The start of a run, from the first connection to START."""

from __future__ import annotations

import signal

from ...common.errors import UsageError
from ...common.wording import counted
from ...control import frames, messages
from ..fleet.hosts import by_cause, some_of
from .run_view import RunPhase
from .startup import StartLimits, Startup, lines_by_cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...common.errors import DsrunError
    from .gate import Done, GateStage
    from .run_node import RunNode
    from .run_state import RunState
    from .startup import AllReady

NO_DEVICES = "no accelerator found: workers run on the CPU (--accelerator cpu hides this message)"

SETTLED = 1.0
"""Seconds after START by which the workers have begun, so that the runner has time to spare."""

PRELOAD_PATIENCE = 2.0
"""Seconds from START until the user reads that modules are still being imported."""


class StartupOutbox:
    """Passes the outcome of the startup to its run (`StartupActions`), at the end of the step."""

    def __init__(self, run: RunState) -> None:
        self._run, self._do, self._decide = run, run.do, run.decide
        self.send, self.log = run.send, run.log

    def status(self, text: str) -> None:
        """Show this as the status line, which replaces itself."""
        self._do(self._run.act.status, text)

    def ask(self, node: RunNode) -> None:
        """Send this node its JOB."""
        self._do(self._run.act.ask, node)

    def check(self, stages: Sequence[GateStage], nodes: Sequence[RunNode], then: Done) -> None:
        """Check these nodes by the gates of some stages."""
        self._decide(self._run.check, stages, nodes, then)

    def exclude(self, causes: Mapping[RunNode, str]) -> None:
        """Go on without these nodes, immediately."""
        _exclude(self._run, causes)

    def ready(self, ready: AllReady) -> None:
        """Start the workers."""
        self._do(self._run.act.ready, ready)

    def fail(self, error: DsrunError) -> None:
        """End the run with this error."""
        self._decide(self._run.fail, error)


def startup(run: RunState) -> Startup:
    """Return the startup of a run, which waits for all nodes."""
    policy = run.spec.supervision
    rounds = run.restarts.least is not None
    least = run.restarts.least if rounds else run.spec.checks.least
    limits = StartLimits(
        connect=policy.connect_timeout,
        start=policy.start_timeout,
        sign=policy.sign_timeout,
        least=least,
        batches=run.spec.batches,
        rounds=rounds,
        verbose=run.spec.output.level == "debug",
    )
    return Startup(run.plan, run.nodes, run.timers, StartupOutbox(run), limits)


def send_jobs(run: RunState) -> None:
    """Send JOB to every connected node, and to each other node when it connects."""
    run.startup.start()
    for node in run.nodes:
        if node.connection.connected:
            run.do(run.act.ask, node)
        elif node.connection.lost:
            run.startup.fail(node, f"lost: {node.connection.lost}")


def call_off(run: RunState, reason: str) -> None:
    """Give up the start for this reason; only warn if the program is already running."""
    if run.phase is RunPhase.STARTING:
        run.startup.cancel([reason])
    else:
        run.warn(reason)


def fail_start(run: RunState, node: RunNode, cause: str) -> None:
    """Go on without a node that cannot be prepared."""
    if run.started:
        run.warn(f"cannot use {node.name}: {cause}")
        run.do(run.act.close_line, node, cause)
    else:
        run.startup.fail(node, cause)


def _exclude(run: RunState, causes: Mapping[RunNode, str]) -> None:
    """Go on without these nodes, and make them release what they have reserved."""
    for node, cause in causes.items():
        node.exclude(cause)
    text = "\n".join(lines_by_cause(causes))
    run.send(list(causes), messages.pack(frames.STOP, messages.Stop(signal.SIGTERM, 0.0)))
    run.warn(f"{text}; starting without {'it' if len(causes) == 1 else 'them'}")


def start(run: RunState, place: AllReady) -> None:
    """Start, unless the settled plan contradicts the user's request."""
    cpu_only = all(node.hello.accelerator == "cpu" for node in run.nodes if node.hello)
    misfit = run.spec.misfit(place.plan, bare=cpu_only)
    if misfit:
        run.fail(UsageError(misfit))
        return
    _log_folders(run)
    run.phase, run.started, run.master = RunPhase.RUNNING, True, place.master
    run.record.began = run.now
    present = [node for node in run.nodes if not node.over]
    for node in present:
        run.do(run.act.expect_beats, node)
        node.assign(place.plan.nodes[node.node.rank])
    run.label(place.plan)
    _send_start(run, present, place)
    _log_start(run, place.port, cpu_only=cpu_only)
    if run.observers:
        run.observers.started(run.spec.job_id, place.plan, (place.master, place.port))
    if run.spec.output.stdin:
        run.do(run.act.forward_input, run.staged.first)
    run.do(run.act.send_beats)
    if run.spec.workers.preload:
        run.timers.call_later(PRELOAD_PATIENCE, lambda: _tell_of_imports(run, present))
    run.restarts.on_start(place, run.staged.first, run.startup.probes)
    run.timers.call_later(SETTLED, _prepare_for_failures)


def _send_start(run: RunState, present: list[RunNode], place: AllReady) -> None:
    starts = [run.start_message(node.node, place.master, place.port) for node in present]
    packed = [messages.pack(frames.START, one) for one in starts]
    rounds = run.restarts.least is not None  # under which ROUND, not START, starts the workers
    run.staged.send(list(zip(present, packed, strict=True)), begins=not rounds)


# -- words ------------------------------------------------------------------------------------


def _log_folders(run: RunState) -> None:
    """Log the private folder for log files on each node, if it has made one."""
    if run.spec.output.log_private:
        folders = {n.name: f"log files in {n.hello.log_dir}" for n in run.nodes if n.hello}
        for line in by_cause(folders):
            run.log(line)


def _log_start(run: RunState, port: int, *, cpu_only: bool) -> None:
    """Log the size of the run and its master; warn if expected devices are missing."""
    if run.spec.workers.expects_devices and cpu_only:
        run.log(NO_DEVICES)
    plan = run.plan
    where = f"{plan.nodes[0].host.name}: master {run.master}:{port}"
    size = counted(plan.world_size or 0, "worker")
    run.log(f"{size} on {counted(len(plan.nodes), 'node')}; {where}", "debug")


def _tell_of_imports(run: RunState, nodes: Sequence[RunNode]) -> None:
    """Print the nodes that have not started workers because they still import preloaded modules."""
    waiting = [one.name for one in nodes if not one.over and not run.workers.began(one)]
    if waiting and run.phase is RunPhase.RUNNING:
        modules = ", ".join(run.spec.workers.preload)
        run.log(f"waiting for {some_of(waiting)} to import {modules} (--preload)")


def _prepare_for_failures() -> None:
    """Import the modules that explain failures, so that a report need not wait for them."""
    from ...features.diagnosis import runner_verdict as verdict  # noqa: F401
