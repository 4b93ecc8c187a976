"""What is to be done for the rounds of a job; nodes go by their number in the run."""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias


class Form(NamedTuple):
    """These nodes are the next round, in this order; so many restarts were needed."""

    members: tuple[int, ...]
    restarts: int


class Change(NamedTuple):
    """These nodes are to leave their round."""

    nodes: tuple[int, ...]


class Notify(NamedTuple):
    """These nodes are to know that they will have to leave their round soon."""

    nodes: tuple[int, ...]


class Release(NamedTuple):
    """This node is not needed any more, and is to end."""

    node: int


class GiveUp(NamedTuple):
    """This node is of no use any more, for this reason."""

    node: int
    reason: str


class TooFew(NamedTuple):
    """There were too few nodes for too long."""


class Say(NamedTuple):
    """A line for the user."""

    text: str


if TYPE_CHECKING:
    RoundAction: TypeAlias = Form | Change | Notify | Release | GiveUp | TooFew | Say
