"""What runs on held nodes for a client: one program, or the roles of a job."""

from __future__ import annotations

from functools import partial

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.errors import DsrunError
    from ..job.job import Job
    from ..report.ending import Ending
    from ..roles.roles_job import RolesJob


class Work(NamedTuple):
    """What a held run does with it.

    Attributes:
        send: acts on the number of a signal, as a program asks for it.
        end: ends it: by the number of a signal, and why if nobody has sent that.
        pass_on: handles a signal that does not end it.
        stop: stops it, given seconds of grace or None.
        refuse: ends it with an error.
        conclude: gives the nodes back once it is over, and returns how it has ended.
    """

    send: Callable[[object], None]
    end: Callable[[int, str], None]
    pass_on: Callable[[int], object]
    stop: Callable[[object], None]
    refuse: Callable[[DsrunError], None]
    conclude: Callable[[Job], Ending]


def of_roles(roles: RolesJob) -> Work:
    """Return the roles of a job."""
    from ..roles import control

    def conclude(job: Job) -> Ending:
        ending = roles.conclude()
        job.hooks = roles.tell_end(ending)
        roles.close()
        return ending

    return Work(
        send=partial(control.send, roles),
        end=roles.end,
        pass_on=partial(control.pass_on, roles),
        stop=partial(control.stop, roles),
        refuse=roles.refuse,
        conclude=conclude,
    )
