"""A job that a program has launched."""

from __future__ import annotations

import signal
import time
import weakref
from collections import deque
from contextlib import suppress

from ..common.errors import LOST, DsrunError
from ..control import frames
from ..control.local_client import checked
from ..features.jobs.runner_relay import REPORT
from ..features.roles.runner_console import APART, role_of
from . import events
from .errors import JobError, LaunchError
from .interrupts import Interrupts
from .outcomes import Outcomes
from .output import JobOutput
from .report import read
from .running_roles import Begun
from .wait_readable import Readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Sequence
    from types import TracebackType
    from typing import Any

    from ..control.local_client import ArrivedFrame
    from .events import Event, Output
    from .output import Show
    from .process import ServiceProcess
    from .report import Report
    from .stacks import Stacks


MOST_INTERRUPTS = 3
"""The interrupts that the runner handles: it stops the job, kills it, then leaves it. At the next
one this program leaves the runner."""


class Job:
    """A job: a script, or calls of a function, on the nodes of this launch.

    It runs in a separate process, even while this program does something else. Its output is read,
    and printed here, while this program waits for the job: in `wait`, `results`, `events`,
    `stacks`, `done` or with `await`. The ranks wait when much output is unread. The job is stopped
    when this program ends, and when the `with` block of the job is left. A Job is for one thread at
    a time; only `stop` and `signal` may be called from other threads.

    Attributes:
        pid: the process that runs it.
    """

    def __init__(
        self,
        service: ServiceProcess,
        request: int,
        job_id: str,
        output: Show | bool | None = True,
        *,
        lines: bool = True,
        roles: Sequence[str] = (),
    ) -> None:
        """Follow a job that a process was asked to run.

        Args:
            service: the process.
            request: the number of this request.
            job_id: the job's id.
            output: True to print the output; a function to call with it; None to drop it.
            lines: whether an `Output` is a whole line; otherwise it is a block as it arrived.
            roles: the names of its roles; none if it has one program.
        """
        self.id, self.pid = job_id, service.pid
        self._service, self._request = service, request
        self._output = JobOutput(output, lines=lines)
        self._roles = tuple(roles) or ("",)
        self._outcomes = {role: Outcomes(role) for role in self._roles}
        self._begun = Begun()
        self._history: list[Event] = []
        self._readers: weakref.WeakSet[Events] = weakref.WeakSet()
        self._arrived: deque[ArrivedFrame | Output | JobError] = deque()
        self._readable = Readable(service.client.fileno())
        self._ending: Report | JobError | None = None

    # -- waiting ----------------------------------------------------------------------------

    @property
    def report(self) -> Report | None:
        """The report of the job; None before its certain end, and if it could not start."""
        return None if isinstance(self._ending, JobError) else self._ending

    def done(self) -> bool:
        """Read arrived data, without waiting; return whether the job has ended."""
        with Interrupts() as interrupts:
            self._receive()
        if interrupts.count:
            raise KeyboardInterrupt
        return self._ending is not None

    def wait(self, timeout: float | None = None) -> Report:
        """Wait for the end of the job and return its report, whether it has failed or not.

        Ctrl-C stops the job with SIGINT; another Ctrl-C kills it. Once it has ended,
        KeyboardInterrupt is raised.

        Args:
            timeout: seconds to wait; None for no limit.

        Raises:
            LaunchError: the job could not be started.
            JobError: the process that runs the job has died.
            TimeoutError: the job has not ended in time; it continues.
            KeyboardInterrupt: the user has interrupted the program.
        """
        self._follow(lambda: self._ending is not None, timeout)
        return self._result()

    def results(self, timeout: float | None = None, role: str = "") -> dict[int, Any]:
        """Wait for the end of the job; return the results of its function, by rank.

        For a script, and for a rank that was stopped as the job was over, the values are None.
        The values are unpickled here.

        Args:
            timeout: seconds to wait; None for no limit.
            role: only this role, in a job of several.

        Raises:
            RankError: a rank has failed; the first one, if several have.
            JobError: the job was stopped, or has lost a node; otherwise as `wait`.
            KeyError: the job has no such role.
        """
        outcomes = self._outcomes[self._known(role)]
        return outcomes.results(self._of_role(self.wait(timeout), role))

    def result(self, rank: int = 0, timeout: float | None = None, role: str = "") -> Any:
        """Wait for the end of the job; return the result of its function on one rank.

        Raises:
            KeyError: the job has no such rank; or see `results`.
        """
        return self.results(timeout, role)[rank]

    def exceptions(self, timeout: float | None = None, role: str = "") -> dict[int, BaseException]:
        """Wait for the end of the job; return the errors of failed ranks, by rank.

        Each is the exception of its function, or else a RankError. Raises as `wait`, and KeyError
        as `results`.
        """
        outcomes = self._outcomes[self._known(role)]
        return outcomes.exceptions(self._of_role(self.wait(timeout), role))

    def stdout(self, rank: int = 0, role: str = "") -> str:
        """Return the output of a rank on standard output so far.

        If a job writes more than 16 MiB, only the latest output is kept. With the output "inherit",
        the program gets none.

        Raises:
            KeyError: the job has no such role.
        """
        return self._output.text(self._number(role, rank), 1)

    def stderr(self, rank: int = 0, role: str = "") -> str:
        """Return the output of a rank on standard error so far; see `stdout`."""
        return self._output.text(self._number(role, rank), 2)

    def _known(self, role: str) -> str:
        """Return a role of the job; "" stands for a job of one program.

        Raises:
            KeyError: the job has no such role.
        """
        if role not in self._roles:
            names = ", ".join(self._roles)
            has = f"its roles are {names}" if names else "it has one program"
            raise KeyError(f"role {role!r}: job {self.id}: {has}")
        return role

    def _number(self, role: str, rank: int) -> int:
        """Return the runner's number of a rank, unique among all roles."""
        return self._roles.index(self._known(role)) * APART + rank

    def _of_role(self, report: Report, role: str) -> Report:
        """Return the report of a role; without one, as none of its ranks has run, the job's."""
        if not role:
            return report
        found = report.roles.get(role, report._replace(world_size=0, failures=()))
        return found._replace(text=report.text)

    def events(self) -> Events:
        """Return an iterator over all that happens to the job, to its end; also for `async for`.

        Earlier events, except output, come first. If the job cannot be started, or the
        process that runs it dies, the iterator raises as `wait`.
        """
        return Events(self)

    def __await__(self) -> Generator[Any, None, Report]:
        return self._wait().__await__()

    async def _wait(self) -> Report:
        while not self.done():
            await self._readable.wait()
        return self._result()

    # -- requests ---------------------------------------------------------------------------

    def stop(self, grace: float | None = None) -> None:
        """Stop the ranks with SIGTERM, and kill what is left after the grace; does not wait.

        Args:
            grace: seconds; None for the job's own (the option `grace`).
        """
        self._ask({"do": "stop", "grace": grace})

    def signal(self, number: int) -> None:
        """Send a signal to every rank; SIGTERM, SIGINT, SIGHUP and SIGKILL stop the job."""
        self._ask({"do": "signal", "number": int(number)})

    def stacks(self, *, role: str = "", native: bool = False) -> Stacks:
        """Return the stacks of the ranks, and the rank that the others wait for.

        During the start, this waits until the workers run.

        Args:
            role: the role, in a job of several.
            native: whether to include frames of C and C++ code, which takes up to 10 seconds.

        Raises:
            LaunchError: the job could not be started.
            JobError: no rank is still running, or the job does not answer.
            KeyError: the job has no such role.
            KeyboardInterrupt: the user has interrupted the program.
        """
        from .stacks import read

        known = self._known(role)
        self._follow(lambda: known in self._begun, None)
        if isinstance(self._ending, JobError):
            raise self._ending
        return read(self.id, role=known, native=native)

    def _ask(self, message: dict[str, Any]) -> None:
        if self._ending is None:
            with suppress(DsrunError):  # it is gone, as `_receive` finds out
                self._service.client.send(message)

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        """Stop the job, unless it has ended, and wait for its end."""
        if not self.done():
            self.stop()
            self._follow(lambda: self._ending is not None, None)

    async def __aenter__(self) -> Job:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self.done():
            self.stop()
        while not self.done():
            await self._readable.wait()

    # -- arriving data ----------------------------------------------------------------------

    def _follow(self, reached: Callable[[], bool], timeout: float | None) -> None:
        """Read arriving data until a condition holds.

        Raises:
            TimeoutError: the condition does not hold in time.
            KeyboardInterrupt: the user has interrupted the program; the job has ended.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        passed_on = 0
        with Interrupts() as interrupts:
            self._receive()
            while self._ending is None and (passed_on or not reached()):
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not interrupts.wait(self._service.client.fileno(), left, passed_on):
                    raise TimeoutError(f"job {self.id} has not ended within {timeout:g} s")
                for _ in range(interrupts.count - passed_on):
                    passed_on, deadline = passed_on + 1, None
                    self.signal(signal.SIGINT)
                self._receive()
                if passed_on > MOST_INTERRUPTS:
                    self._finish(
                        JobError(f"job {self.id}: left alone, as it did not end when interrupted")
                    )
        if passed_on:
            raise KeyboardInterrupt

    def _receive(self) -> None:
        """Handle arrived frames.

        If the program's own function for output raises an exception, it is raised here; the
        remaining frames are handled in the next call.
        """
        if self._ending is not None:
            return
        try:
            arrived = self._service.client.receive()
        except DsrunError as error:
            self._arrived.append(JobError(f"job {self.id}: {error}", error.exit_code))
        else:
            self._arrived.extend([self._died()] if arrived is None else arrived)
        while self._arrived and self._ending is None:
            self._take(self._arrived.popleft())

    def _died(self) -> JobError:
        text = f"the process that ran job {self.id} (pid {self.pid}) has died"
        return JobError(f"{text}; its nodes stop the ranks", LOST)

    def _take(self, arrived: ArrivedFrame | Output | JobError) -> None:
        if isinstance(arrived, events.Output):
            number, rank = role_of(arrived.rank)
            output = arrived._replace(rank=rank, role=self._roles[number])
            self._tell(output)
            self._output.show(output)
        elif (ended := self._ended(arrived)) and (rest := self._output.rest(ended)):
            self._arrived.extendleft([arrived, *reversed(rest)])
        elif isinstance(arrived, JobError):
            self._finish(arrived)
        else:
            self._take_frame(arrived)

    def _ended(self, arrived: ArrivedFrame | JobError) -> Collection[int]:
        """Return the numbers of roles whose ranks will not complete their unfinished lines.

        These ranks have ended: with the job, or before a restart.
        """
        if isinstance(arrived, JobError) or self._is_answer(arrived):
            return range(len(self._roles))
        if arrived.message.get("event") not in {"Started", "Round"}:
            return ()
        return [self._roles.index(str(arrived.message.get("role", "")))]

    def _is_answer(self, arrived: ArrivedFrame) -> bool:
        return arrived.kind == frames.ANSWER and arrived.message.get("id") == self._request

    def _take_frame(self, arrived: ArrivedFrame) -> None:
        message = arrived.message
        if arrived.kind == frames.CHUNK:
            self._take_output(*frames.unpack_output(arrived.data))
        elif arrived.kind == frames.EVENT and message.get("event") == "Label":
            self._output.label(message)
        elif arrived.kind == frames.EVENT:
            self._begun.note(message)
            self._take_event(events.from_json(message))
        elif self._is_answer(arrived):
            self._take_answer(message)

    def _take_output(self, rank: int, stream: int, data: bytes) -> None:
        if stream == REPORT:
            number, rank = role_of(rank)
            self._outcomes[self._roles[number]].add(rank, data)
            return
        lines = self._output.add(rank, stream, data)
        if self._readers or self._output.shows:
            self._arrived.extendleft(events.Output(rank, stream, one) for one in reversed(lines))

    def _take_event(self, event: Event | None) -> None:
        if event is None:
            return
        self._outcomes[getattr(event, "role", self._roles[0])].note(event)
        if isinstance(event, events.Message):
            self._output.message(event.text)
        self._history.append(event)
        self._tell(event)

    def _take_answer(self, answer: dict[str, Any]) -> None:
        try:
            checked(answer)
        except DsrunError as error:
            self._finish(LaunchError(str(error), error.exit_code))
            return
        report = read(answer["report"], answer["text"])
        self._output.finish(report.text)
        self._finish(report)
        self._take_event(events.Ended(report))

    def _tell(self, event: Event) -> None:
        for reader in tuple(self._readers):
            reader.add(event)

    def _finish(self, ending: Report | JobError) -> None:
        self._ending = ending
        self._service.close()

    def _result(self) -> Report:
        """Return the report of a job that has ended, or raise the reason for its absence."""
        assert self._ending is not None
        if isinstance(self._ending, JobError):
            raise self._ending
        return self._ending

    def __repr__(self) -> str:
        state = "running" if self._ending is None else "ended"
        return f"<Job {self.id}, {state}>"


class Events:
    """Iterates over the events of a job; see `Job.events`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._next: deque[Event] = deque(job._history)
        job._readers.add(self)

    def add(self, event: Event) -> None:
        """Add a new event."""
        self._next.append(event)

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event:
        if not self._next:
            self._job._follow(lambda: bool(self._next), None)
        if self._next:
            return self._next.popleft()
        self._job._result()
        raise StopIteration

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Event:
        # `done` may read the next event; without that, nothing more may arrive.
        while not self._next and not self._job.done() and not self._next:
            await self._job._readable.wait()
        if self._next:
            return self._next.popleft()
        self._job._result()
        raise StopAsyncIteration
