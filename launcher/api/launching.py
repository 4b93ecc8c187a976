"""Launches a job from a program."""

from __future__ import annotations

from ..common.errors import DsrunError
from .errors import LaunchError
from .job import Job
from .plan import plan, planned
from .process import RunnerProcess
from .serve import INHERIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Literal

    from .events import Output
    from .plan import Target

    Sink = Literal["print", "inherit"] | Callable[[Output], object] | None


def launch(
    target: Target,
    args: Iterable[object] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    output: Sink = "print",
    lines: bool = True,
    **options: object,
) -> Job:
    """Launch a script, or a function that every rank calls, and return the running job.

    Args:
        target: the path of a script, the name of a module with `module=True`, or a function. A
            function is sent to the nodes by cloudpickle, with what it refers to.
        args: the arguments of the script, or of the function.
        kwargs: keyword arguments of the function.
        output: where the output goes: "print", "inherit", a function that is called with each
            `Output`, or None; see docs/python.md.
        lines: whether an `Output` is a whole line; False for output as it comes.
        options: options of dsrun by their names; `hosts` is `--host`. Flags take True.

    Returns:
        the job, which is starting.

    Raises:
        LaunchError: the job cannot be planned, or the function cannot be sent; nothing was started.
            What the nodes find out later, `Job.wait` raises.
    """
    check_output(output)
    spec = plan(target, args, kwargs, options, planned)
    from ..specs import codec

    request = {"do": "launch", "spec": codec.encode(spec), "output": output == INHERIT and INHERIT}
    service = RunnerProcess("dsrun.launcher.api.serve")
    try:
        number = service.client.send(request)
    except DsrunError as error:
        service.close()
        raise LaunchError(str(error), error.exit_code) from None
    return Job(service, number, spec.job_id, shown(output), lines=lines)


def check_output(output: object) -> None:
    """Check the argument of that name.

    Raises:
        LaunchError: it is none of the valid values.
    """
    if output not in ("print", INHERIT, None) and not callable(output):
        raise LaunchError(f'output: expected "print", "inherit", a function or None: {output!r}')


def shown(output: Sink) -> Callable[[Output], object] | bool | None:
    """Return what a Job does with output."""
    if callable(output):
        return output
    return True if output == "print" else None
