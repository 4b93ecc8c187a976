"""What happens in a node's rounds, and what they have the run on this node do."""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from ...control.messages import Start
    from ...control.round_messages import AgentFailure


class AgentJoined(NamedTuple):
    """The agent waits for a round.

    Attributes:
        port: where the round's store is if this node is the first one of it.
        probe: listens until the round is formed, for other nodes to try.
    """

    port: int
    probe: int


class WorkersRequested(NamedTuple):
    """The agent has requested every worker of a round.

    Attributes:
        environments: the variables that torch's agent sets for each worker, by local rank; empty
            for all others.
    """

    environments: Sequence[Mapping[str, str]]


class StopRequested(NamedTuple):
    """The workers are to stop, with this signal."""

    number: int


class RoundFinished(NamedTuple):
    """All workers of the round have ended with code 0, and nothing of them is left."""


class AgentEnded(NamedTuple):
    """The agent has ended, with a failure unless its workers had ended well."""

    failure: AgentFailure | None


class RoundFormed(NamedTuple):
    """The runner has formed a round: this is the place of this node in it."""

    start: Start


class ChangeWanted(NamedTuple):
    """The runner wants another round."""


class ChangeNear(NamedTuple):
    """The runner will want another round soon."""


class WorkerExited(NamedTuple):
    """A worker has ended."""

    rank: int
    code: int


class NotStarted(NamedTuple):
    """No worker of this round was started: it was stopped with this signal."""

    number: int


class WorkersGone(NamedTuple):
    """Nothing is left of this round's workers, nor of a notice to them."""


class StartWorkers(NamedTuple):
    """The workers of this round are to be started."""

    start: Start


class StopWorkers(NamedTuple):
    """The workers are to be stopped: the signal, and the seconds until SIGKILL."""

    number: int
    grace: float


class SignalWorkers(NamedTuple):
    """The workers are to get a signal."""

    number: int


class RoundsEnded(NamedTuple):
    """There is no further round: the reason, "" if all workers ended well."""

    reason: str


if TYPE_CHECKING:
    AgentEvent: TypeAlias = (
        AgentJoined | WorkersRequested | StopRequested | RoundFinished | AgentEnded
    )
    RoundsEvent: TypeAlias = StartWorkers | StopWorkers | SignalWorkers | RoundsEnded
    EmitAgent: TypeAlias = Callable[[AgentEvent], None]
    EmitRounds: TypeAlias = Callable[[RoundsEvent], None]
