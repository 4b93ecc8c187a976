"""What is to be done for the rounds of a job; nodes go by their number in the run."""

from __future__ import annotations

from collections import deque

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias


class Probe(NamedTuple):
    """Each of `nodes` is to try the addresses of `first`, which may be the first of a round."""

    first: int
    nodes: tuple[int, ...]


class Form(NamedTuple):
    """These nodes are the next round, in this order.

    Attributes:
        address: of the first of them, which all others have reached.
        restarts: how many failures there were so far.
    """

    members: tuple[int, ...]
    address: str
    restarts: int


class StopRound(NamedTuple):
    """These nodes are to leave their round."""

    nodes: tuple[int, ...]


class Notify(NamedTuple):
    """These nodes are to tell their workers that the round will end soon."""

    nodes: tuple[int, ...]


class Release(NamedTuple):
    """This node is not needed any more, and is to end."""

    node: int


class DropNode(NamedTuple):
    """This node is to be treated as lost.

    Attributes:
        for_good: it is not to be reached again.
    """

    node: int
    reason: str
    for_good: bool = False


class CheckNodes(NamedTuple):
    """The health command is to run on these nodes; their round may begin once it has passed."""

    nodes: tuple[int, ...]


class EndJob(NamedTuple):
    """A failure ends the job: no node was lost that could explain it."""


class ForgetFailures(NamedTuple):
    """The failures of the round are those of a lost node: the job goes on."""


class TooFew(NamedTuple):
    """There were too few nodes for too long."""


class Finish(NamedTuple):
    """All workers of the round have ended with code 0: the job is done."""


class Log(NamedTuple):
    """A line for the user."""

    text: str


if TYPE_CHECKING:
    RoundAction: TypeAlias = (
        Probe
        | Form
        | StopRound
        | Notify
        | Release
        | DropNode
        | CheckNodes
        | EndJob
        | ForgetFailures
        | TooFew
        | Finish
        | Log
    )


class ActionQueue:
    """Carries out actions in order.

    A line may turn out to be broken while it is used, which is a loss: what follows from it comes
    after the action, so that no node is told to leave a round of which it has not been told yet.
    """

    def __init__(self, act: Callable[[RoundAction], None]) -> None:
        self._act = act
        self._actions: deque[RoundAction] = deque()
        self._acting = False

    def add(self, actions: Iterable[RoundAction]) -> None:
        """Add actions, which `run` carries out."""
        self._actions.extend(actions)

    def run(self) -> None:
        """Carry out all actions; called by one of them, leave that to the call above."""
        if self._acting:
            return
        self._acting = True
        try:
            while self._actions:
                self._act(self._actions.popleft())
        finally:
            self._acting = False
