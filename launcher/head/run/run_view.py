"""The state of a run as other modules see it."""

from __future__ import annotations

from enum import IntEnum

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.errors import DsrunError
    from ...specs.job import JobSpec
    from ...specs.plan import Plan
    from .events import Observer
    from .record import JobRecord
    from .restart_policy import RestartPolicy
    from .run_node import RunNode
    from .running_ranks import Workers


class RunPhase(IntEnum):
    """The phases of a run, in their order; a run never goes back."""

    STARTING = 0
    RUNNING = 1
    STOPPING = 2
    ENDING = 3
    OVER = 4


class RunView(NamedTuple):
    """A snapshot of a run.

    Attributes:
        plan: the ranks of each node, for an elastic job in the current round.
        started: whether the workers were started.
        abandoned: whether a third interrupt has ended the run without waiting for its nodes.
        error: why the run was refused; None if it was not.
        nodes: the nodes, not copied: they keep changing.
        record: the history of the job, not copied either.
        workers: the running workers, not copied either.
        restarts: the restart policy, not copied either.
    """

    spec: JobSpec
    plan: Plan
    phase: RunPhase
    started: bool
    abandoned: bool
    error: DsrunError | None
    nodes: Sequence[RunNode]
    record: JobRecord
    workers: Workers
    restarts: RestartPolicy

    @property
    def world_size(self) -> int:
        """The number of workers."""
        return self.restarts.world_size(self.plan.world_size or 0)

    @property
    def runs(self) -> bool:
        """True if the workers were started, and are not being stopped."""
        return self.started and not self.stopping

    @property
    def stopping(self) -> bool:
        """True if the run is being stopped, or has ended on all nodes."""
        return self.phase >= RunPhase.STOPPING

    @property
    def ending(self) -> bool:
        """True if the run has ended on all nodes."""
        return self.phase >= RunPhase.ENDING


class ObservedRun(NamedTuple):
    """A run that has not begun, for its observers.

    Attributes:
        role: the name of the role, "" in a job of one program.
        observe: registers a function that is called with every event (`events`) from now on.
        view: returns a snapshot of the run.
    """

    role: str
    observe: Callable[[Observer], None]
    view: Callable[[], RunView]
