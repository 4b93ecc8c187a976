"""A job as others see it: those who stop it or observe it, and the one who begins and ends it."""

from __future__ import annotations

import signal

from ...common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Protocol, TypeAlias

    from ...common.errors import DsrunError
    from ...specs.job import JobSpec
    from ...specs.roles import RolesSpec
    from ..fleet.fleet import NodeFleet
    from ..output.screen import Screen
    from ..report.ending import Ending
    from ..run.run_node import RunNode
    from ..run.run_view import ObservedRun
    from .job_socket import FindRun

    class JobControl(Protocol):
        """A job for those who stop it, or have it observed: before it begins, and until it ends."""

        @property
        def end_signals(self) -> Sequence[str]:
            """The names of the signals that end it."""
            ...

        @property
        def roles(self) -> Collection[str]:
            """The names of its roles; "" is that of one program."""
            ...

        @property
        def started(self) -> bool:
            """Whether workers run, or have run."""
            ...

        @property
        def ending(self) -> bool:
            """Whether it ends."""
            ...

        def end(self, number: int, why: str = "") -> None:
            """Handle a signal that ends it; `why` is told in its place if nobody has sent it."""
            ...

        def stop(self, number: int, grace: float | None) -> None:
            """Stop it by a signal, with another grace than its own if that is not None."""
            ...

        def pass_on(self, number: int) -> None:
            """Handle a signal that does not end it."""
            ...

        def signal_ranks(self, number: int) -> int:
            """Send a signal to all running ranks; return how many there are."""
            ...

        def refuse(self, error: DsrunError) -> None:
            """End it with an error; if workers of roles run already, only log that."""
            ...

        def call_off(self, reason: str) -> None:
            """Give up the start for a reason; if workers run already, only warn."""
            ...

        def observe_runs(self, observe: Callable[[ObservedRun], None]) -> None:
            """Have a function called with each of its runs before that begins."""
            ...

    class Programs(JobControl, Protocol):
        """The program of a job, or the programs of its roles: `RunnerJob` begins and ends them."""

        @property
        def spec(self) -> JobSpec | RolesSpec:
            """The job."""
            ...

        @property
        def refusal(self) -> DsrunError | None:
            """Why they could not be started, if `conclude` has nothing to say beside that."""
            ...

        @property
        def abandoned(self) -> bool:
            """Whether a third interrupt has ended them without waiting for their nodes."""
            ...

        def begin(self, listen: Callable[[], None]) -> None:
            """Begin: nodes get ready as soon as they are connected; `listen` takes requests."""
            ...

        def wait(self) -> None:
            """Run the loop until they are over."""
            ...

        def leave(self) -> Sequence[RunNode]:
            """Give all nodes back to the fleet; return those that have to answer before reuse."""
            ...

        def conclude(self) -> Ending:
            """Return how they have ended."""
            ...

        def tell_end(self, ending: Ending) -> Sequence[Callable[[], None]]:
            """Tell observers how the job has ended; return what waits in a thread for programs."""
            ...

        def requests(self) -> FindRun:
            """Note what requests ask for from now on; return the search for the run of one."""
            ...

        def on_broken_output(self) -> None:
            """Stop: the reader of the output has gone."""
            ...

    MakePrograms: TypeAlias = Callable[[JobSpec, NodeFleet, Screen], Programs]


def send(job: JobControl, number: object) -> None:
    """Act on a signal for a job, as a program asks for it: end it, or pass it on to every rank.

    Raises:
        UsageError: there is no such signal.
    """
    if type(number) is not int or number not in set(signal.Signals):
        raise UsageError(f"signal {number!r}: no such signal")
    if number == signal.SIGKILL:
        job.stop(number, 0.0)
    elif signal.Signals(number).name in job.end_signals:
        job.end(number)
    else:
        job.signal_ranks(number)


def stop(job: JobControl, grace: object) -> None:
    """Stop a job, with another grace than its own if that is a number of seconds.

    Raises:
        UsageError: the grace is not a number of seconds.
    """
    if grace is not None and (type(grace) not in {int, float} or not 0 <= grace < 1e9):  # type: ignore[operator]
        raise UsageError(f"grace: expected seconds, not {grace!r}")
    job.stop(signal.SIGTERM, None if grace is None else float(grace))  # type: ignore[arg-type]
