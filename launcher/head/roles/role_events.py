"""What happens to the roles of a job; roles go by their names."""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias


class JobBegun(NamedTuple):
    """The job begins: no role has been prepared yet."""


class RolePrepared(NamedTuple):
    """All nodes of a role are ready to start its workers."""

    role: str


class RoleStarted(NamedTuple):
    """All workers of a role run."""

    role: str


class RoleReady(NamedTuple):
    """The check of a role's readiness has succeeded."""

    role: str


class NotReadyYet(NamedTuple):
    """Why the check of a role's readiness has not succeeded so far, in words."""

    role: str
    why: str


class RoleFailing(NamedTuple):
    """A role has failed, and its workers are being stopped already; a `RoleEnded` follows.

    Attributes:
        loss: of which node, in words; "" if of none.
    """

    role: str
    loss: str = ""


class RoleEnded(NamedTuple):
    """Nothing of a role runs any more.

    Attributes:
        code: how it has ended, as an exit code of dsrun.
        loss: as in `RoleFailing`.
        moves: whether it would have another node in place of one that is lost, if it was prepared
            again.
    """

    role: str
    code: int
    loss: str = ""
    moves: bool = False


class RestartRequested(NamedTuple):
    """A user wants a role to be started again."""

    role: str


class Interrupted(NamedTuple):
    """A signal ends the job; roles that are being stopped get it, too.

    Attributes:
        why: what is told in its place if nobody has sent it.
    """

    number: int
    why: str = ""


class Killed(NamedTuple):
    """All workers are to be killed at once, with the same signal as before in the reports."""

    number: int


class RoleTimePassed(NamedTuple):
    """It is the time that `RolesPolicy.due` has named."""


if TYPE_CHECKING:
    RoleEvent: TypeAlias = (
        JobBegun
        | RolePrepared
        | RoleStarted
        | RoleReady
        | NotReadyYet
        | RoleFailing
        | RoleEnded
        | RestartRequested
        | Interrupted
        | Killed
        | RoleTimePassed
    )
