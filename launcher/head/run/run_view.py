"""What others see of a run: how it is now, and what happens in it."""

from __future__ import annotations

from enum import IntEnum

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.errors import DsrunError
    from ...specs.job import JobSpec
    from ...specs.plan import Plan
    from .events import Observer
    from .record import JobRecord
    from .run_node import RunNode
    from .workers import Workers


class RunPhase(IntEnum):
    """The phases of a run, in their order; a run never goes back."""

    STARTING = 0
    RUNNING = 1
    STOPPING = 2
    ENDING = 3
    OVER = 4


class RunView(NamedTuple):
    """How a run is now.

    Attributes:
        spec: its job.
        plan: which node has which ranks, for an elastic job in the current round.
        phase: its current phase.
        started: whether its workers were started.
        abandoned: whether a third interrupt has ended it without waiting for its nodes.
        error: why it was refused; None if it was not.
        world_size: how many workers it has.
        nodes: its nodes, which go on changing.
        record: what has happened so far, likewise.
        workers: the running workers, likewise.
    """

    spec: JobSpec
    plan: Plan
    phase: RunPhase
    started: bool
    abandoned: bool
    error: DsrunError | None
    world_size: int
    nodes: Sequence[RunNode]
    record: JobRecord
    workers: Workers

    @property
    def runs(self) -> bool:
        """Whether its workers were started, and are not being stopped."""
        return self.started and not self.stopping

    @property
    def stopping(self) -> bool:
        """Whether it is being stopped, or has ended on all nodes."""
        return self.phase >= RunPhase.STOPPING

    @property
    def ending(self) -> bool:
        """Whether it has ended on all nodes."""
        return self.phase >= RunPhase.ENDING


class ObservedRun(NamedTuple):
    """A run that has not begun, for those who watch it.

    Attributes:
        role: the name of its role, "" in a job of one program.
        observe: has a function called with every event (`events`) from now on.
        view: returns how the run is now.
    """

    role: str
    observe: Callable[[Observer], None]
    view: Callable[[], RunView]
