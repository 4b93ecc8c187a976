"""The state of a run on a node, which decides on the consequences of each event.

Nothing here starts, signals, sends or waits: `NodeRunActions` do that.
"""

from __future__ import annotations

import signal
from enum import Enum

from ...common.records import NamedTuple
from ..workers.group import FailureDetails

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from ...control.messages import Start
    from ..workers.spawn import Process


NOT_EXECUTED = 126
"""The exit code of a worker that could not be started, as in shells."""


class NodeRunPhase(Enum):
    """The phase of a run; phases only go forward.

    Attributes:
        PREPARED: its checks are made; a port may be reserved for it.
        RUNNING: its workers run, or an elastic job's agent does.
        DISMISSING: its workers are gone; the agent and the preloader are being ended.
        ENDED: nothing is left here, and the runner has been told.
    """

    PREPARED = 1
    RUNNING = 2
    DISMISSING = 3
    ENDED = 4


class WorkersCourse(Enum):
    """The workers of the latest request.

    Attributes:
        NONE: no workers were requested.
        WAITING: they wait for the preloader.
        RUNNING: they were started, and some of their processes are left.
    """

    NONE = 1
    WAITING = 2
    RUNNING = 3


class RoundsCourse(Enum):
    """The rounds of an elastic job.

    Attributes:
        NONE: the job is not elastic.
        OPEN: another round may follow.
        OVER: no round follows, but the agent has not ended.
    """

    NONE = 1
    OPEN = 2
    OVER = 3


if TYPE_CHECKING:

    class RunningGroup(Protocol):
        """The workers that run."""

        def stop(self, number: int, grace: float, *, delivered: bool = False) -> None:
            """Stop them: SIGKILL `grace` seconds after the signal."""

        def signal_all(self, number: int) -> None:
            """Pass a signal to every worker."""

        def feed(self, data: bytes) -> None:
            """Pass standard input to the worker that reads it; b"" is its end."""

    class RunningRounds(Protocol):
        """The rounds of an elastic job."""

        def exited(self, rank: int, code: int) -> None:
            """Tell the agent that a worker has ended."""

        def not_started(self, number: int) -> None:
            """Tell the agent that no worker of its round was started: this signal stopped them."""

        def workers_gone(self) -> None:
            """Tell the agent that this round's workers are gone."""

        def stop(self) -> None:
            """Make the agent request no other round."""

    class RunningPreloader(Protocol):
        """The preloader, from which workers start."""

        def cancel(self) -> None:
            """Start no more workers from it."""

    class NodeRunActions(Protocol):
        """Acts on the decisions of a run, in the order of the calls."""

        @property
        def group(self) -> RunningGroup:
            """The workers that were started last."""

        @property
        def rounds(self) -> RunningRounds:
            """The rounds, since `start_rounds`."""

        @property
        def preloader(self) -> RunningPreloader:
            """The preloader, if the run has one."""

        def start_rounds(self, start: Start) -> None:
            """Start the agent of an elastic job."""

        def preload(self, start: Start) -> None:
            """Prepare the preloader for these workers; `NodeRunState.preloaded` follows."""

        def flush_signals(self, start: Start) -> None:
            """Act on signals that wait for each other; that may stop the run.

            `NodeRunState.workers_due` follows.
            """

        def start_group(self, start: Start, early: Sequence[bytes]) -> None:
            """Start the workers, and pass them this standard input.

            `NodeRunState.not_started` follows if one cannot be started.
            """

        def look_for_leftovers(self) -> None:
            """Look for processes left by ended jobs; this reads all of /proc."""

        def report_exit(self, process: Process, code: int) -> None:
            """Report the end of a worker to the runner, with its cause if known."""

        def report_not_started(self, rank: int, reason: str) -> None:
            """Report a worker that was not started to the runner."""

        def find_failures(self) -> None:
            """Read the files of failed workers; `NodeRunState.failures_found` follows."""

        def kill_agent(self) -> None:
            """Kill the processes of the agent; `NodeRunState.group_ended` follows."""

        def close_rounds(self) -> None:
            """Close the agent; `NodeRunState.rounds_closed` follows once no notice is left."""

        def finish_preloader(self) -> None:
            """Close it, or keep what a later run needs; `NodeRunState.preloader_gone` follows."""

        def release(self) -> None:
            """Close all resources of the run."""

        def report_end(self, left: Sequence[int], details: FailureDetails, reason: str) -> None:
            """Close all resources of the run, and report its end to the runner.

            Args:
                left: pids that could not be killed.
                details: of workers that failed by themselves.
                reason: the reason for the end, if it is not the runner's.
            """


class GroupEnd(NamedTuple):
    """The end of a group of workers.

    Attributes:
        left: pids that cannot be killed from here.
        may_stay: whether background processes of the workers may stay.
        failed: whether a worker failed by itself, or raised an exception before it was stopped.
    """

    left: Sequence[int]
    may_stay: bool
    failed: bool


class NodeRunState:
    """A run on a node, from JOB to DONE.

    Attributes:
        looks: whether processes left by ended jobs are yet to be looked for.
        leaves_background: whether background processes of the workers may stay.
    """

    def __init__(self, do: NodeRunActions, *, elastic: bool, preloads: bool) -> None:
        """Begin with a run that is prepared.

        With `elastic` an agent requests its workers; with `preloads` there is a preloader.
        """
        self.phase = NodeRunPhase.PREPARED
        self.leaves_background = False
        self._do = do
        self._elastic, self._preloads = elastic, preloads
        self._workers, self._rounds = WorkersCourse.NONE, RoundsCourse.NONE
        self.looks = False
        self._last: GroupEnd | None = None
        self._early: list[bytes] = []
        self._unended: list[int] = []
        self._details = FailureDetails({}, {}, {}, {})
        self._reason = ""

    # -- workers ----------------------------------------------------------------------------

    def started(self, start: Start, *, looks: bool = False) -> None:
        """Start the workers, or the agent that decides when they start.

        With `looks`, then look for processes left by ended jobs; a node that joins a job which is
        already running looks before, as no worker of an earlier round may live beside its own.
        """
        self.phase, self.looks = NodeRunPhase.RUNNING, looks
        if self._elastic:
            if not start.master_addr:  # the other nodes have started
                self._look_for_leftovers()
            self._rounds = RoundsCourse.OPEN
            self._do.start_rounds(start)
        else:
            self.workers_requested(start)

    def workers_requested(self, start: Start) -> None:
        """Start the workers that the runner, or the agent, has requested."""
        if self._preloads:
            self._workers = WorkersCourse.WAITING
            self._do.preload(start)
        else:
            self._do.flush_signals(start)

    def preloaded(self, start: Start) -> None:
        """Start these workers: the preloader is ready for them."""
        self._workers = WorkersCourse.NONE
        self._do.flush_signals(start)

    def workers_due(self, start: Start) -> None:
        """Start these workers now, unless the run was stopped."""
        if self.phase is NodeRunPhase.RUNNING and self._rounds is not RoundsCourse.OVER:
            self._workers = WorkersCourse.RUNNING
            early, self._early = self._early, []
            self._do.start_group(start, early)
            self._look_for_leftovers()

    def _look_for_leftovers(self) -> None:
        """Look for leftovers once."""
        if self.looks:
            self.looks = False
            self._do.look_for_leftovers()

    def not_started(self, start: Start, rank: int, reason: str) -> None:
        """Stop the running workers, because the worker with this rank could not be started.

        To the agent, the other workers of `start` count as failed.
        """
        self._do.report_not_started(rank, reason)
        if self._rounds is not RoundsCourse.NONE:
            for other in range(rank, start.first_rank + len(start.slots)):
                self._do.rounds.exited(other, NOT_EXECUTED)
        self._do.group.stop(signal.SIGTERM, 0)

    def input_came(self, data: bytes) -> None:
        """Pass on standard input, or keep it until the workers have been started; b"" ends it."""
        if self._workers is WorkersCourse.WAITING:
            self._early.append(data)
        elif self._workers is WorkersCourse.RUNNING:
            self._do.group.feed(data)

    def signal_came(self, number: int) -> None:
        """Pass a signal on to the workers."""
        if self.phase is NodeRunPhase.RUNNING and self._workers is WorkersCourse.RUNNING:
            self._do.group.signal_all(number)

    def round_stopped(self, number: int, grace: float) -> None:
        """Stop the workers of a round; those that wait for the preloader are not started."""
        if self._workers is WorkersCourse.WAITING:
            self._workers = WorkersCourse.NONE
            self._do.preloader.cancel()
            self._do.rounds.not_started(number)
        elif self._workers is WorkersCourse.RUNNING:
            self._do.group.stop(number, grace)

    def worker_ended(self, process: Process, code: int) -> None:
        """Report the end of a worker to the runner, and to the agent if there is one."""
        if self.phase is NodeRunPhase.ENDED:
            return  # it could not be ended
        self._do.report_exit(process, code)
        if self._rounds is not RoundsCourse.NONE:
            self._do.rounds.exited(process.spec.rank, code)

    # -- the end ----------------------------------------------------------------------------

    def stopped(
        self, number: int, grace: float, *, reason: str = "", delivered: bool = False
    ) -> None:
        """Stop the workers and start no other round; a run without workers ends at once.

        Args:
            number: the signal for them.
            grace: seconds until SIGKILL.
            reason: the reason, if it is not the runner's.
            delivered: whether the workers have already got the signal.
        """
        self._reason = reason or self._reason
        if self.phase is NodeRunPhase.PREPARED:
            self._finish()
        elif self.phase is NodeRunPhase.RUNNING:
            self._stop_running(number, grace, delivered=delivered)

    def _stop_running(self, number: int, grace: float, *, delivered: bool) -> None:
        if self._preloads:
            self._do.preloader.cancel()
        if self._rounds is not RoundsCourse.NONE:
            self._rounds = RoundsCourse.OVER
            self._do.rounds.stop()
        if self._workers is WorkersCourse.RUNNING:
            self._do.group.stop(number, grace, delivered=delivered)
        else:
            self._finish_workers()

    def rounds_ended(self, reason: str) -> None:
        """Stop at once, as no round follows; the reason is "" if all workers succeeded."""
        self.stopped(signal.SIGTERM, 0, reason=reason)

    def group_ended(self, end: GroupEnd) -> None:
        """Continue with the next round, or with the end of the agent or of the run."""
        if self.phase is NodeRunPhase.ENDED:
            return
        self._workers, self._last = WorkersCourse.NONE, end
        if self._rounds is RoundsCourse.OPEN:
            self._do.rounds.workers_gone()
        else:
            self._unended += end.left
            self._finish_workers()

    def _finish_workers(self) -> None:
        was, last, self.phase = self.phase, self._last, NodeRunPhase.DISMISSING
        self._workers = WorkersCourse.NONE
        if was is NodeRunPhase.RUNNING and last is not None:
            self.leaves_background = self._rounds is RoundsCourse.NONE and last.may_stay
            if last.failed:
                self._do.find_failures()
                return
        self._finish_rounds()

    def failures_found(self, details: FailureDetails) -> None:
        """Continue with the end, which reports these details."""
        self._details = details
        self._finish_rounds()

    def _finish_rounds(self) -> None:
        """Close the agent of an elastic job, if any, and then end the run."""
        if self._rounds is RoundsCourse.NONE:
            self._finish()
        else:
            self._do.close_rounds()

    def rounds_closed(self) -> None:
        """Kill the processes of the agent that are left after it was closed."""
        self._rounds, self._workers = RoundsCourse.NONE, WorkersCourse.RUNNING
        self._do.kill_agent()

    def _finish(self) -> None:
        """End the run once the preloader is gone, or is kept."""
        self.phase = NodeRunPhase.DISMISSING
        if self._preloads:
            self._do.finish_preloader()
        else:
            self.preloader_gone()

    def preloader_gone(self) -> None:
        """End the run, as nothing is left."""
        self.phase = NodeRunPhase.ENDED
        self._do.report_end(self._unended, self._details, self._reason)

    def close(self) -> None:
        """Close all resources at once, as another run follows."""
        self.phase = NodeRunPhase.ENDED
        self._do.release()
