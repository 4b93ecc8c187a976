"""What runs on held nodes for a client: one program, or the roles of a job."""

from __future__ import annotations

from functools import partial

from ...common.values import NamedTuple
from ..local import run_control

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.errors import DsrunError
    from ..report.ending import Ending
    from ..roles.roles_job import RolesJob
    from ..run.job import Job
    from ..run.run import Run


class Work(NamedTuple):
    """What a held run does with it.

    Attributes:
        runs: returns its runs on the nodes.
        send: acts on the number of a signal, as a program asks for it.
        end: ends it: by the number of a signal, and why if nobody has sent that.
        pass_on: handles a signal that does not end it.
        stop: stops it, given seconds of grace or None.
        refuse: ends it with an error.
        conclude: gives the nodes back once it is over, and returns how it has ended.
    """

    runs: Callable[[], list[Run]]
    send: Callable[[object], None]
    end: Callable[[int, str], None]
    pass_on: Callable[[int], object]
    stop: Callable[[object], None]
    refuse: Callable[[DsrunError], None]
    conclude: Callable[[Job], Ending]


def of_run(run: Run) -> Work:
    """Return one program."""

    def conclude(job: Job) -> Ending:
        run.leave()
        run.release(run.nodes)
        return job.conclude()

    return Work(
        runs=lambda: [run],
        send=partial(run_control.send, run),
        end=run.signals.end,
        pass_on=run.signals.pass_on,
        stop=partial(run_control.stop, run),
        refuse=run.refuse,
        conclude=conclude,
    )


def of_roles(roles: RolesJob) -> Work:
    """Return the roles of a job."""
    from ..roles import control

    def conclude(job: Job) -> Ending:
        ending = roles.conclude()
        job.hooks = roles.tell_end(ending)
        roles.close()
        return ending

    return Work(
        runs=lambda: [role.run for role in roles.roles.values() if role.run is not None],
        send=partial(control.send, roles),
        end=lambda number, _why: roles.end(number),
        pass_on=partial(control.pass_on, roles),
        stop=partial(control.stop, roles),
        refuse=lambda error: roles.call_off(str(error)),
        conclude=conclude,
    )
