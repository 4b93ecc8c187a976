"""What has happened in a job so far, kept until it is told."""

from __future__ import annotations

from ...common.errors import TOO_FEW
from ...control.messages import Done
from ..report.report import Failure, Loss, Report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...control.messages import Exit
    from .run_node import RunNode


class JobRecord:
    """Exits, losses and signals as they come in; times on the runner's monotonic clock.

    Attributes:
        stop_signal: the first signal that asked for the job's end, 0 for none.
        broken_pipe: nobody reads the job's output any more.
    """

    def __init__(self, job_id: str, began: float) -> None:
        self.job_id = job_id
        self.began = self.ended = began
        self.stop_signal = 0
        self.broken_pipe = False
        self._by_node = False
        self._exits: list[tuple[RunNode, Exit]] = []
        self._losses: list[Loss] = []
        self._unexplained: set[str] = set()
        self._awaited: set[str] = set()

    def exited(self, node: RunNode, ended: Exit) -> bool:
        """Note the end of a worker; tells whether it failed by itself."""
        self._exits.append((node, ended))
        return ended.failed

    @property
    def has_failures(self) -> bool:
        """Whether a worker has failed by itself."""
        return any(ended.failed for _, ended in self._exits)

    def forget_exits(self) -> None:
        """Forget the ends of workers: the job went on with others."""
        self._exits = []

    def lost(self, host: str, reason: str, at: float, *, explained: bool = True) -> None:
        """Note the loss of a node: the first word on it counts.

        Where only the end of its line is known (not `explained`), the cause may follow.
        """
        if any(loss.host == host for loss in self._losses):
            return
        self._losses.append(Loss(at, host, reason))
        if not explained:
            self._unexplained.add(host)
            self._awaited.add(host)

    def stopped_by_node(self, number: int) -> None:
        """Note a signal that a node launcher got: a scheduler's, or an engine's."""
        self._by_node = self.stop_signal == 0
        self.stop_signal = self.stop_signal or number

    def doubt_signal(self) -> None:
        """Take in that the engine was killed: what signals the nodes got came of that."""
        if self._by_node:
            self.stop_signal = 0

    @property
    def cut_off(self) -> bool:
        """Whether a line has ended and nobody has said why."""
        return bool(self._unexplained)

    @property
    def awaits_words(self) -> bool:
        """Whether a backend may yet say why a line has ended."""
        return bool(self._awaited)

    def await_no_more_words(self) -> None:
        """Take what is known of lost nodes for all that there will be."""
        self._awaited.clear()

    def engine_ended(self, cause: str, code: int, at: float) -> None:
        """Note the end of the engine; a line that ended before it ended because of it."""
        cut = min((one for one in self._losses if one.host in self._unexplained), default=None)
        if cut is None:
            self._losses.append(Loss(at, "", cause, code, "lost the engine"))
            return
        others = [one for one in self._losses if one != cut]
        self._losses = [*others, Loss(cut.at, cut.host, cause, code)]

    def gave_up(self, reason: str, at: float) -> None:
        """Note that too few nodes were left for too long."""
        self._losses.append(Loss(at, "", reason, TOO_FEW, "gave up"))

    def explain(self, host: str, cause: str) -> None:
        """Put the backend's word, if any, to a loss of which only the line's end was known."""
        self._awaited.discard(host)
        if cause and host in self._unexplained:
            self._losses = [
                Loss(one.at, host, cause) if one.host == host else one for one in self._losses
            ]

    def report(
        self, nodes: Sequence[RunNode], world_size: int, *, graceful_term_ok: bool
    ) -> Report:
        """Return the report as of now."""
        exits = [ended for _, ended in self._exits]
        clean = bool(exits) and all(ended.code == 0 for ended in exits)
        return Report(
            job_id=self.job_id,
            world_size=world_size,
            hosts=tuple(dict.fromkeys(node.name for node in nodes)),
            began=self.began,
            ended=self.ended,
            failures=tuple(_failure(*one) for one in self._exits if one[1].failed),
            losses=tuple(self._losses),
            stopped=sum(ended.signalled for ended in exits),
            stop_signal=self.stop_signal,
            stop_is_clean=graceful_term_ok and clean,
            broken_pipe=self.broken_pipe,
            bound=tuple((node.name, node.bound) for node in nodes if node.bound),
            left=tuple(f"{p.name}: {text}" for p in nodes if p.done for text in p.done.left),
            unseen=tuple(
                node.left for node in nodes if node.left and not (node.done or node.swept)
            ),
        )


def _failure(node: RunNode, ended: Exit) -> Failure:
    rank, done = str(ended.rank), node.done or Done((), {})
    stdout, stderr = done.tails.get(rank, ("", ""))
    message, traceback = done.recorded.get(rank, ("", ""))
    return Failure(
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
    )
