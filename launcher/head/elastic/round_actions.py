"""What is to be done for the rounds of a job; nodes go by their number in the run."""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias


class ProbeMaster(NamedTuple):
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


class ReleaseMember(NamedTuple):
    """This node is not needed any more, and is to end."""

    node: int


class DropNode(NamedTuple):
    """This node is to be treated as lost.

    Attributes:
        for_good: it is not to be reached again.
    """

    node: int
    reason: str
    for_good: bool


class CheckNodes(NamedTuple):
    """The health command is to run on these nodes; their round may begin once it has passed."""

    nodes: tuple[int, ...]


class EndForFailure(NamedTuple):
    """A failure ends the job: no node was lost that could explain it."""


class ForgetFailures(NamedTuple):
    """The failures of the round are those of a lost node: the job goes on."""


class TooFew(NamedTuple):
    """There were too few nodes for too long."""


class Finish(NamedTuple):
    """All workers of the round have ended with code 0: the job is done."""


if TYPE_CHECKING:
    RoundAction: TypeAlias = (
        ProbeMaster
        | Form
        | StopRound
        | Notify
        | ReleaseMember
        | DropNode
        | CheckNodes
        | EndForFailure
        | ForgetFailures
        | TooFew
        | Finish
    )
