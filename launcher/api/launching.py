"""Launches a job from a program."""

from __future__ import annotations

from ..common.errors import DsrunError
from ..common.records import NamedTuple
from ..specs import codec
from .errors import LaunchError
from .job import Job
from .plan import plan, planned
from .process import RunnerProcess
from .serve import INHERIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Literal

    from ..specs.job import JobSpec
    from ..specs.roles import RolesSpec
    from .events import Output
    from .plan import Target
    from .roles import Role

    Sink = Literal["print", "inherit"] | Callable[[Output], object] | None


def launch(
    target: Target | None = None,
    args: Iterable[object] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    roles: Sequence[Role] | None = None,
    output: Sink = "print",
    lines: bool = True,
    **options: object,
) -> Job:
    """Launch a script, a function that every rank calls, or several; return the running job.

    Args:
        target: the path of a script, the name of a module with `module=True`, or a function. A
            function is sent to the nodes by cloudpickle, together with the objects it refers to.
        args: the arguments of the script, or of the function.
        kwargs: keyword arguments of the function.
        roles: the programs of a job of several, in place of the three above.
        output: the destination of the output: "print", "inherit", a function that is called with
            each `Output`, or None; see docs/python.md.
        lines: whether an `Output` is a whole line; False for blocks as they arrive.
        options: options of dsrun by their names; `hosts` is `--host`. Flags take True.

    Returns:
        the job, which is starting.

    Raises:
        LaunchError: the job cannot be planned, or the function cannot be sent; nothing was started.
            Errors that nodes find later are raised by `Job.wait`.
    """
    check_output(output)
    job, fields = described((target, args, kwargs), roles, options)
    names = [one.name for one in roles or ()]
    request = {"do": "launch", "output": output == INHERIT and INHERIT, **fields}
    service = RunnerProcess("dsrun.launcher.api.serve")
    try:
        number = service.client.send(request)
    except DsrunError as error:
        service.close()
        raise LaunchError(str(error), error.exit_code) from None
    return Job(service, number, job.job_id, shown(output), lines=lines, roles=names)


class Planner(NamedTuple):
    """Functions that make jobs of command lines.

    Attributes:
        one: returns the job of a command line.
        several: returns the job of the options of a whole job, and of the words of each role.
    """

    one: Callable[[Sequence[str]], JobSpec]
    several: Callable[[Sequence[str], Sequence[Sequence[str]]], RolesSpec]


def planned_roles(argv: Sequence[str], programs: Sequence[Sequence[str]]) -> RolesSpec:
    """Return a job of several roles, on its own nodes.

    Raises:
        UsageError: the command would reject the words.
    """
    from .roles import on_own_nodes

    return on_own_nodes(argv, programs)


OWN = Planner(planned, planned_roles)
"""The planner for jobs on their own nodes."""


def described(
    program: tuple[Target | None, Iterable[object], Mapping[str, object] | None],
    roles: Sequence[Role] | None,
    options: Mapping[str, object],
    planner: Planner = OWN,
) -> tuple[JobSpec, dict[str, Any]]:
    """Return a job and the other fields of its request.

    Args:
        program: the target, its arguments and its keyword arguments.
        roles: the roles, in place of a program.
        options: options of dsrun.
        planner: makes the job.

    Raises:
        LaunchError: the job cannot be planned, or a function cannot be sent.
    """
    target, args, kwargs = program
    if roles is None:
        if target is None:
            raise LaunchError("launch: expected a script, a function, or roles=[Role(...), ...]")
        spec = plan(target, args, kwargs, options, planner.one)
        return spec, {"spec": codec.encode(spec)}
    if target is not None or args or kwargs:
        raise LaunchError("roles: not with a script or a function; each Role has its own")
    from .roles import plan as plan_roles

    several = plan_roles(roles, options, planner.several)
    return several.job, {"spec": codec.encode(several), "roles": True}


def check_output(output: object) -> None:
    """Check the argument `output`.

    Raises:
        LaunchError: the value is invalid.
    """
    if output not in ("print", INHERIT, None) and not callable(output):
        raise LaunchError(f'output: expected "print", "inherit", a function or None: {output!r}')


def shown(output: Sink) -> Callable[[Output], object] | bool | None:
    """Return the output argument of a Job for a sink."""
    if callable(output):
        return output
    return True if output == "print" else None
