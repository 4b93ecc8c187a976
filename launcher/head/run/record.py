"""The history of a job, kept for its report."""

from __future__ import annotations

import signal

from ...common.errors import LOST, TOO_FEW
from ...control.messages import Done
from ..report.report import JobReport, Loss, WorkerFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ...backends.events import EngineEnded
    from ...control.messages import WorkerExit
    from .run_node import RunNode

BESIDE = 0.5
"""Seconds within which a scheduler's signal reaches both the workers and the launcher of a node,
and the node's report on it reaches the runner."""

SCHEDULERS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals with which schedulers end jobs."""

WITH_ENGINE = 0.5
"""Greatest number of seconds between the report of a node's signal and the end of the engine that
sent it. The runner learns of both at once, unless it is busy."""


class JobRecord:
    """Exits, losses and signals; times are on the runner's monotonic clock.

    Attributes:
        stop_signal: the first signal that stopped the job, 0 for none.
        stop_reason: why the job was stopped as if by this signal, if nobody sent it; else "".
        restarts: the number of restarts of the workers of an elastic job.
        broken_pipe: whether nobody reads the job's output any longer.
        found: the findings of watches, for sections of the report (`head/doors`).
        asks_allocation: whether a query to Slurm is under way: has the job's allocation ended?
        outliving: for each lost host, the seconds after the loss, beyond the grace, within which
            its workers end.
    """

    def __init__(self, job_id: str, began: float) -> None:
        self.job_id = job_id
        self.began = self.ended = began
        self.stop_signal = 0
        self.stop_reason = ""
        self.restarts = 0
        self.broken_pipe = False
        self.found: list[object] = []
        self.asks_allocation = False
        self.outliving: dict[str, float] = {}
        self._by_node: float | None = None
        self._exits: list[tuple[RunNode, WorkerExit]] = []
        self._losses: list[Loss] = []
        self._lost: set[str] = set()
        self._unexplained: set[str] = set()
        self._awaited: set[str] = set()
        self._own_words: set[str] = set()
        self._by_engine = False

    def exited(self, node: RunNode, ended: WorkerExit) -> bool:
        """Record the end of a worker; return whether it failed on its own."""
        self._exits.append((node, ended))
        return ended.failed

    @property
    def has_failures(self) -> bool:
        """True if a worker has failed on its own."""
        return any(ended.failed for _, ended in self._exits)

    def clear_exits(self) -> None:
        """Forget the ends of workers: the job continues with new ones."""
        self._exits = []

    def lost(
        self, host: str, reason: str, at: float, *, explained: bool = True, own: bool = False
    ) -> None:
        """Record the loss of a node; the first reason given for a host counts.

        A better cause may replace this one if it is only the end of the connection (not
        `explained`), or if the node itself has reported it (`own`).
        """
        if host in self._lost:
            return
        self._lost.add(host)
        self._losses.append(Loss(at, host, reason))
        if not explained:
            self._unexplained.add(host)
            self._awaited.add(host)
            if own:
                self._own_words.add(host)

    def has_lost(self, host: str) -> bool:
        """Return whether a loss of the node is recorded."""
        return host in self._lost

    def stopped_by(self, number: int, why: str) -> None:
        """Record a signal that ends the run, or the reason `why` if nobody sent that signal."""
        if not self.stop_signal:
            self.stop_signal, self.stop_reason = number, why

    @property
    def ended_well(self) -> bool:
        """True if nothing is recorded but workers that ended with code 0."""
        return not (self.stop_signal or self.broken_pipe or self._losses or self.has_failures)

    def stopped_late(self, number: int, why: str) -> None:
        """Record a signal reported after all workers have ended, if it may be the cause."""
        if self.ended_well:
            self.stopped_by(number, why)

    @property
    def may_be_cancelled(self) -> bool:
        """True if the end of the Slurm allocation would explain how the run has ended."""
        if self.stop_signal or self.broken_pipe:
            return False
        at = min((loss.at for loss in self._losses), default=None)
        if at is not None and not (self._by_engine or self.cut_off):
            return False
        first = self._first_failure()
        return first is None or _is_by(SCHEDULERS, first[1]) or (at is not None and at < first[0])

    def failed_beside(self, number: int, now: float) -> bool:
        """Return whether the run stops because a worker has just ended by this signal."""
        first = self._first_failure()
        return (
            first is not None
            and not (self.stop_signal or self._losses)
            and now - first[0] <= BESIDE
            and _is_by({number}, first[1])
        )

    def is_consequence(self, node: RunNode, ended: WorkerExit) -> bool:
        """Return whether a scheduler or an engine ended this worker during the run's stop."""
        first = self._first_failure()
        causes = [loss.at for loss in self._losses] + ([first[0]] if first else [])
        at = ended.clock + node.connection.offset
        known = bool(self.stop_signal) or min(causes, default=at) < at
        return known and _is_by(SCHEDULERS, ended.code)

    def _first_failure(self) -> tuple[float, int] | None:
        """Return the time (runner's clock) and the exit code of the first worker failure."""
        ends = (
            (ended.clock + node.connection.offset, ended.code)
            for node, ended in self._exits
            if ended.failed
        )
        return min(ends, default=None)

    def stopped_by_node(self, number: int, at: float) -> None:
        """Record a signal that a node launcher received from a scheduler or an engine."""
        self._by_node = None if self.stop_signal else at
        self.stop_signal = self.stop_signal or number

    def discard_node_signal(self, at: float) -> bool:
        """Discard a signal received by a node: the end of the engine caused it.

        A signal that came long before the end of the engine is kept: schedulers send SIGTERM, and
        later SIGKILL.

        Returns:
            whether there was such a signal.
        """
        since, self._by_node = self._by_node, None
        discarded = since is not None and at - since <= WITH_ENGINE
        if discarded:
            self.stop_signal = 0
        return discarded

    @property
    def cut_off(self) -> bool:
        """True if a connection has ended for an unknown reason."""
        return bool(self._unexplained)

    @property
    def awaits_causes(self) -> bool:
        """True if an explanation of ended workers or connections may still arrive."""
        return bool(self._awaited) or self.asks_allocation

    def stop_explaining(self) -> None:
        """Stop waiting for explanations of ended connections."""
        self._awaited.clear()

    def engine_ended(self, cause: str, code: int, at: float, *, killed: bool = False) -> None:
        """Record the end of the engine, which also explains connections that ended before it.

        A node's own reason for leaving is reported as well, unless the engine was `killed`: in that
        case the engine has ended the node launchers.
        """
        self._by_engine = True
        cut = min((one for one in self._losses if one.host in self._unexplained), default=None)
        if cut is None:
            self._losses.append(Loss(at, "", cause, code, "lost the engine"))
            return
        own = cut.host in self._own_words and not killed and code == LOST
        known = Loss(cut.at, cut.host, f"{cut.reason}; {cause}" if own else cause, code)
        self._losses = [known if one == cut else one for one in self._losses]

    def explain_by_engine(self, engine: EngineEnded | None, at: float) -> bool:
        """Record the end of an engine, known once the engine is closed, if it ended the job.

        Returns:
            whether it did.
        """
        if engine is None:
            return False
        by_engine = engine.killed and self.discard_node_signal(at)
        if by_engine or self.cut_off:
            self.engine_ended(engine.cause, engine.code, at, killed=engine.killed)
            return True
        return False

    def gave_up(
        self,
        reason: str,
        at: float,
        code: int = TOO_FEW,
        words: str = "gave up",
        sign: str = "",
    ) -> None:
        """Record that dsrun ends the job, by default because too few nodes were left.

        Args:
            reason: the reason, for the user.
            at: the time of the decision.
            code: dsrun's exit code.
            words: the reaction, for the report.
            sign: evidence for the diagnosis, as in `Loss`.
        """
        self._losses.append(Loss(at, "", reason, code, words, sign))

    def explain(self, host: str, cause: str) -> None:
        """Explain a loss, so far only a disconnect, by the backend's cause, if it has one."""
        self._awaited.discard(host)
        if cause and host in self._unexplained:
            self._unexplained.discard(host)
            self._losses = [
                Loss(one.at, host, cause) if one.host == host else one for one in self._losses
            ]

    def report(
        self, nodes: Sequence[RunNode], world_size: int, *, graceful_term_ok: bool
    ) -> JobReport:
        """Return a report on the job so far."""
        exits = [ended for _, ended in self._exits]
        well = bool(exits) and all(ended.code == 0 for ended in exits)
        return JobReport(
            job_id=self.job_id,
            world_size=world_size,
            hosts=tuple(dict.fromkeys(node.name for node in nodes)),
            began=self.began,
            ended=self.ended,
            failures=tuple(_failure(*one) for one in self._exits if one[1].failed),
            unended=tuple(
                _failure(*one)._replace(at=self.began, code=1, evidence=())
                for one in self._exits
                if one[1].signalled and one[0].done and str(one[1].rank) in one[0].done.tails
            ),
            losses=tuple(self._losses),
            done=tuple(
                (ended.clock + node.connection.offset, ended.rank, node.name)
                for node, ended in self._exits
                if ended.code == 0
            ),
            stopped=sum(ended.signalled for ended in exits),
            stop_signal=self.stop_signal,
            stop_reason=self.stop_reason,
            restarts=self.restarts,
            stop_is_clean=graceful_term_ok and well and not self._losses,
            broken_pipe=self.broken_pipe,
            bound=tuple((node.name, node.bound) for node in nodes if node.bound),
            found=tuple(self.found),
            left=tuple(f"{p.name}: {text}" for p in nodes if p.done for text in p.done.left),
            unseen=tuple(node.left for node in nodes if node.left and not node.ended),
        )


def _is_by(numbers: Collection[int], code: int) -> bool:
    """Return whether one of these signals ended a worker with this code."""
    return -code in numbers or code - 128 in numbers


def _failure(node: RunNode, ended: WorkerExit) -> WorkerFailure:
    rank, done = str(ended.rank), node.done or Done((), {})
    stdout, stderr = done.tails.get(rank, ("", ""))
    message, traceback = done.recorded.get(rank, ("", ""))
    found = done.evidence.get(rank, "")
    return WorkerFailure(
        at=ended.clock + node.connection.offset,
        rank=ended.rank,
        local_rank=node.node.local_rank(ended.rank),
        host=node.name,
        pid=ended.pid,
        code=ended.code,
        hint=ended.hint,
        stdout=stdout,
        stderr=stderr,
        message=message,
        traceback=traceback,
        log=done.logs.get(rank, ""),
        evidence=tuple(filter(None, f"{ended.evidence}\n{found}".split("\n"))),
    )
