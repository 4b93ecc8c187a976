"""What is to be done for the roles of a job; roles go by their names."""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias


class PrepareRole(NamedTuple):
    """The nodes of a role are to get ready to start its workers, for the first time or again."""

    role: str


class StartRole(NamedTuple):
    """The workers of a role, which is prepared, are to be started."""

    role: str


class CheckReady(NamedTuple):
    """It is to be found out when a role, whose workers run, is ready."""

    role: str


class StopRole(NamedTuple):
    """The workers of a role are to be stopped; if there are none, its nodes are to be left.

    Attributes:
        number: the signal.
        kill: whether what is left is killed without its grace.
    """

    role: str
    number: int
    kill: bool = False


class RolesLog(NamedTuple):
    """A line for the user."""

    text: str
    level: str = "info"


class EndRoles(NamedTuple):
    """Nothing of any role is left: the job is over.

    Attributes:
        code: the exit code of dsrun.
    """

    code: int


if TYPE_CHECKING:
    RoleAction: TypeAlias = PrepareRole | StartRole | CheckReady | StopRole | RolesLog | EndRoles
