"""What torch's agent and a node's rounds tell their owners: typed events, from the loop."""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from ...control.messages import AgentFailure, Start


class AgentJoined(NamedTuple):
    """The agent waits for a round; its store listens on this port."""

    port: int


class WorkersRequested(NamedTuple):
    """The agent has requested every worker of a round: what it says of each, by local rank."""

    environments: Sequence[Mapping[str, str]]


class StopRequested(NamedTuple):
    """The agent wants the workers to stop, with this signal."""

    number: int


class AgentEnded(NamedTuple):
    """The agent has ended: why, or None if its workers had ended well."""

    failure: AgentFailure | None


class StartWorkers(NamedTuple):
    """The workers of this round are to be started."""

    start: Start


class StopWorkers(NamedTuple):
    """They are to be stopped: the signal, and the seconds until SIGKILL."""

    number: int
    grace: float


class SignalWorkers(NamedTuple):
    """They are to get a signal."""

    number: int


class RoundsEnded(NamedTuple):
    """There will be no other round; "" if all ended well, else the reason."""

    reason: str


if TYPE_CHECKING:
    AgentEvent: TypeAlias = AgentJoined | WorkersRequested | StopRequested | AgentEnded
    RoundsEvent: TypeAlias = StartWorkers | StopWorkers | SignalWorkers | RoundsEnded
    EmitAgent: TypeAlias = Callable[[AgentEvent], None]
    EmitRounds: TypeAlias = Callable[[RoundsEvent], None]
