"""The interfaces of a job: for its controllers and observers, and for its owner."""

from __future__ import annotations

import signal

from ...common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Protocol, TypeAlias

    from ...common.errors import DsrunError
    from ...features.jobs.runner_socket import FindRun
    from ...specs.job import JobSpec
    from ...specs.roles import RolesSpec
    from ..fleet.fleet import NodeFleet
    from ..output.screen import Screen
    from ..report.ending import Ending
    from ..run.run_node import RunNode
    from ..run.run_view import ObservedRun

    class JobControl(Protocol):
        """The interface of a job for those who stop or observe it."""

        @property
        def end_signals(self) -> Sequence[str]:
            """The names of the signals that stop the job."""
            ...

        @property
        def roles(self) -> Collection[str]:
            """The names of the job's roles; "" stands for a job of one program."""
            ...

        @property
        def started(self) -> bool:
            """True if workers have been started."""
            ...

        @property
        def ending(self) -> bool:
            """True if the job is ending."""
            ...

        def on_end_signal(self, number: int, why: str = "") -> None:
            """Handle a signal that ends the job; `why` replaces the signal's name in messages."""
            ...

        def stop(self, number: int, grace: float | None) -> None:
            """Stop the job with a signal; `grace` replaces the job's own grace period."""
            ...

        def pass_on(self, number: int) -> None:
            """Handle a signal that does not end the job."""
            ...

        def signal_ranks(self, number: int) -> int:
            """Send a signal to all running ranks; return the number of ranks."""
            ...

        def fail(self, error: DsrunError) -> None:
            """End the job with an error; if workers of roles already run, only log the error."""
            ...

        def call_off(self, reason: str) -> None:
            """Cancel the start for a reason; if workers already run, only warn."""
            ...

        def observe_runs(self, observe: Callable[[ObservedRun], None]) -> None:
            """Call a function with each run of the job before the run starts."""
            ...

    class Programs(JobControl, Protocol):
        """The program of a job, or the programs of its roles; `RunnerJob` starts and ends them."""

        @property
        def spec(self) -> JobSpec | RolesSpec:
            """The job."""
            ...

        @property
        def refusal(self) -> DsrunError | None:
            """The reason why the programs could not start, if `make_ending` does not report one."""
            ...

        @property
        def abandoned(self) -> bool:
            """True if a third interrupt has ended the job without waiting for its nodes."""
            ...

        def start(self, listen: Callable[[], None]) -> None:
            """Start: nodes prepare once connected; `listen` starts to accept requests."""
            ...

        def wait(self) -> None:
            """Run the loop until the programs have ended."""
            ...

        def release_nodes(self) -> Sequence[RunNode]:
            """Give all nodes back to the fleet; return those that must answer before reuse."""
            ...

        def make_ending(self) -> Ending:
            """Return the ending of the programs."""
            ...

        def tell_end(self, ending: Ending) -> Sequence[Callable[[], None]]:
            """Report the ending to observers; return slow functions to call in a thread."""
            ...

        def requests(self) -> FindRun:
            """Note what requests ask for from now on; return the search for the run of one."""
            ...

        def on_broken_output(self) -> None:
            """Stop the job, because nobody reads its output any longer."""
            ...

    MakePrograms: TypeAlias = Callable[[JobSpec, NodeFleet, Screen], Programs]


def send(job: JobControl, number: object) -> None:
    """Handle a signal that a program requests: end the job, or pass the signal on to every rank.

    Raises:
        UsageError: the signal does not exist.
    """
    if type(number) is not int or number not in set(signal.Signals):
        raise UsageError(f"signal {number!r}: no such signal")
    if number == signal.SIGKILL:
        job.stop(number, 0.0)
    elif signal.Signals(number).name in job.end_signals:
        job.on_end_signal(number)
    else:
        job.signal_ranks(number)


def stop(job: JobControl, grace: object) -> None:
    """Stop a job; `grace` replaces the job's own grace period if it is a number of seconds.

    Raises:
        UsageError: the grace is not a number of seconds.
    """
    if grace is not None and (type(grace) not in {int, float} or not 0 <= grace < 1e9):  # type: ignore[operator]
        raise UsageError(f"grace: expected seconds, not {grace!r}")
    job.stop(signal.SIGTERM, None if grace is None else float(grace))  # type: ignore[arg-type]
