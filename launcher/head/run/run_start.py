"""From the first connection to START, for one run."""

from __future__ import annotations

import signal

from ...common.errors import UsageError
from ...common.wording import counted
from ...control import frames, messages
from ..fleet.hosts import by_cause, some_of
from .phase import Phase
from .run_node import RunNode
from .startup import NeedsMasterPort, Ready, Refused, StartLimits, Startup, Unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...specs.plan import Plan
    from ..output.console import Console
    from .health import Health
    from .quick_check import QuickCheck, Verdict
    from .run import Run
    from .startup import StartupEvent

NO_DEVICES = "no accelerator found: workers run on the CPU (--accelerator cpu hides this message)"

SETTLED = 1.0
"""Seconds after START in which workers begin, and the runner does nothing that can wait."""

PRELOAD_PATIENCE = 2.0
"""Seconds from START until the user is told that modules are still being imported."""


class RunStart:
    """Starts the program of a run once all nodes are ready, or ends the run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._cpu_only = False
        self._quick_check: QuickCheck | None = None

    def health(self) -> Health | None:
        """Return what runs the health command of the job, if there is one."""
        if not self._run.spec.checks.health_command:
            return None
        from .health import Health

        return Health(self._run.spec, self._run.fleet)

    def startup(self, console: Console) -> Startup:
        """Return what waits for the nodes of the run."""
        run, policy = self._run, self._run.spec.supervision
        rounds = run.restarts.least is not None
        least = run.restarts.least if rounds else run.spec.checks.least
        limits = StartLimits(
            policy.connect_timeout, policy.start_timeout, least, run.spec.batches, rounds
        )
        startup = Startup(run.plan, run.nodes, run.loop, console, limits, self.on_startup)
        if run.spec.checks.quick:
            startup.compare = self._compare
            # Imported after JOB was sent, while the nodes prepare themselves.
            run.loop.call_later(0.0, self._load_check)
        return startup

    @property
    def quick_check(self) -> QuickCheck | None:
        """What compares the nodes; None if that is left out."""
        if self._run.spec.checks.quick:
            self._load_check()
        return self._quick_check

    def _load_check(self) -> None:
        if self._quick_check is None:
            from .quick_check import QuickCheck

            run = self._run
            self._quick_check = QuickCheck(
                run.spec, run.fleet, self._on_finding, lambda: not run.ending
            )

    def _on_finding(self, line: str) -> None:
        self._run.warn(line)
        if self._run.observers:
            self._run.observers.warned(line)

    def _compare(self, nodes: Sequence[RunNode], tell: Callable[[Verdict], None]) -> None:
        check = self.quick_check
        assert check is not None
        check.compare(nodes, tell)

    def on_startup(self, event: StartupEvent) -> None:
        """Handle an outcome of the startup."""
        match event:
            case Ready(plan, master, port):
                self._run.on_ready(plan, master, port)
            case Unfit(causes):
                self._leave_out(causes)
            case NeedsMasterPort(node):
                node.ask_again()
                self._run.ask(node)
            case Refused(error):
                self._run.refuse(error)

    def _leave_out(self, causes: dict[RunNode, str]) -> None:
        """Go on without some nodes, which release what they have reserved."""
        for node, cause in causes.items():
            node.leave_out(cause)
        text = "\n".join(by_cause({node.name: cause for node, cause in causes.items()}))
        self._run.send(list(causes), messages.pack(frames.STOP, messages.Stop(signal.SIGTERM, 0.0)))
        self._run.warn(f"{text}; starting without {'it' if len(causes) == 1 else 'them'}")

    def ready(self, plan: Plan, master: str, port: int) -> None:
        """Start, unless the plan as it is known now contradicts the user's request."""
        run = self._run
        self._cpu_only = all(node.hello.accelerator == "cpu" for node in run.nodes if node.hello)
        misfit = run.spec.misfit(plan, bare=self._cpu_only)
        if misfit:
            run.refuse(UsageError(misfit))
            return
        _log_folders(run)
        self._start(plan, master, port)

    def _start(self, plan: Plan, master: str, port: int) -> None:
        run = self._run
        run.phase, run.started, run.master = Phase.RUNNING, True, master
        run.record.began = run.loop.clock()
        present = [node for node in run.nodes if not node.over]
        for node in present:
            run.fleet.expect_beats(node.connection)
            node.assign(plan.nodes[node.node.rank])
        run.label(plan)
        self._send_start(present, master, port)
        _log_start(run, port, cpu_only=self._cpu_only)
        if run.observers:
            run.observers.started(run.spec.job_id, plan, (master, port))
        if run.spec.output.stdin:
            from .stdin import Stdin

            run.stdin = Stdin(run.loop, run.staged.first.send, run.input_fd)
        run.fleet.watch()
        if run.spec.workers.preload:
            run.loop.call_later(PRELOAD_PATIENCE, lambda: _tell_of_imports(run, present))
        run.restarts.on_start()
        run.loop.call_later(SETTLED, _prepare_for_failures)

    def _send_start(self, present: list[RunNode], master: str, port: int) -> None:
        starts = [self._run.start_message(node.node, master, port) for node in present]
        packed = [messages.pack(frames.START, start) for start in starts]
        rounds = self._run.restarts.least is not None  # with which workers begin
        send = RunNode.send if rounds else RunNode.begin
        self._run.staged.send(list(zip(present, packed, strict=True)), send)


def _log_folders(run: Run) -> None:
    """Log where each node has made its private folder for log files, if it has."""
    if run.spec.output.log_private:
        folders = {n.name: f"log files in {n.hello.log_dir}" for n in run.nodes if n.hello}
        for line in by_cause(folders):
            run.log(line)


def _log_start(run: Run, port: int, *, cpu_only: bool) -> None:
    """Log the size of the run and its master; warn if expected devices are missing."""
    if run.spec.workers.expects_devices and cpu_only:
        run.log(NO_DEVICES)
    plan = run.plan
    where = f"{plan.nodes[0].host.name}: master {run.master}:{port}"
    size = counted(plan.world_size or 0, "worker")
    run.log(f"{size} on {counted(len(plan.nodes), 'node')}; {where}", "debug")


def _tell_of_imports(run: Run, nodes: Sequence[RunNode]) -> None:
    """Say which of these nodes have started no workers, as they import preloaded modules."""
    waiting = [one.name for one in nodes if not one.over and not run.workers.began(one)]
    if waiting and run.phase is Phase.RUNNING:
        modules = ", ".join(run.spec.workers.preload)
        run.log(f"waiting for the import of {modules} on {some_of(waiting)} (--preload)")


def _prepare_for_failures() -> None:
    """Import what explains failures, so that a report need not wait for it."""
    from ..diagnosis import verdict  # noqa: F401
