"""A run on held nodes for a client: its output goes to the client, and its end is the answer."""

from __future__ import annotations

import gc
import signal
from functools import partial

from ...common import signals, system
from ...common.boundary import unexpected
from ...common.errors import DsrunError, Fault, UsageError
from ...common.output_file import STREAMS, is_page
from ..job import control
from ..job.job import RunnerJob
from ..job.one_program import OneProgram
from ..local.relay import Relay
from ..output.console import Console
from ..report.ending import Ending
from ..run.run import RunOverrides

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...specs.job import JobSpec
    from ...specs.roles import RolesSpec
    from ..detached.detachment import Detachment
    from ..job.control import Programs
    from ..local.server import LocalCaller, Message
    from ..output.screen import Screen
    from .hold import Hold

    Streams = tuple[int, ...]

STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""Signals that end a run even if the job names others: the client is gone, or the hold ends."""

RELEASED = "dsrun-hold --release"
"""Why a run ends, as the user is told, if no signal is the reason."""


class HeldRun:
    """One request of a client, from its arrival to its answer.

    Attributes:
        spec: the job.
        caller: the client.
        job: its job, which has no programs yet while it waits.
        since: when it has begun, in seconds since the epoch; None while it waits.
    """

    def __init__(
        self,
        hold: Hold,
        spec: JobSpec,
        caller: LocalCaller,
        request: Message,
        streams: Streams,
        roles: RolesSpec | None = None,
    ) -> None:
        """Prepare it.

        Args:
            hold: has the nodes.
            spec: the job.
            caller: the client.
            request: what it has asked. With `relay` it gets events, and the output as chunks. With
                `detach`, the folder of the job, it gets an event once all workers run, and may go.
            streams: descriptors of the client, which are closed at the end: standard input, and
                where the output goes, if it is printed here.
            roles: its roles; None if it has one program.
        """
        self._roles = roles
        self.spec = spec
        self.caller = caller
        self.since: float | None = None
        self._hold = hold
        self._request = request
        self._streams = streams
        self._loop = hold.loop
        self._ends = {signals.parse("signal", one) for one in spec.supervision.end_signals}
        screen = _screen(hold, spec, streams) if len(streams) > 1 else None
        self._relay: Relay | None = None
        self._detachment: Detachment | None = None
        console: Screen
        if request.get("detach") is not None and screen is not None:
            self._detachment = _detachment(hold, request, screen, spec.output.level)
            console = self._detachment.console
        elif screen is None or request.get("relay") is True:
            console = self._relay = Relay(caller, spec.output.level, screen)
        else:
            console = screen
        self.job = RunnerJob(spec, console, hold.loop, self._leave, self._writes)
        self._had = False
        caller.on_close.append(self._on_client_gone)

    @property
    def job_id(self) -> str:
        """The id of its job."""
        return self.spec.job_id

    def wait(self, blockers: Sequence[str]) -> None:
        """Tell the user which jobs have the slots that it waits for."""
        self.job.console.log(f"waiting for job {', '.join(blockers)} on the same slots")

    def begin(self) -> None:
        """Start it on its slots, which are free."""
        self.since = system.time()
        try:
            self._begin()
        except Exception as error:
            self._fail(error)

    def _begin(self) -> None:
        self.job.open()
        self._hold.nodes.check(self.spec.plan)
        programs = self._prepared()
        self.job.attach(programs)
        self._watch(programs)
        self.job.begin()

    def _prepared(self) -> Programs:
        """Return its programs, which have not begun."""
        fleet, console = self._hold.fleet, self.job.console
        if self._roles is None:
            owner = RunOverrides(on_over=self._finish)
            return OneProgram(self.spec, fleet, console, owner, self._streams[0])
        from ..roles.roles_job import RolesJob

        return RolesJob(self._roles, fleet, console, self._finish)

    def _watch(self, programs: Programs) -> None:
        """Have programs that are about to begin observed for the client."""
        if (relay := self._relay) is not None:
            programs.observe_runs(lambda run: run.observe(partial(relay.tell, role=run.role)))
        if self._detachment is not None:
            self._detachment.watch(programs, partial(self._detachment.leave, self._tell_running))

    def _tell_running(self) -> None:
        """Let the client go, as all workers of its detached job run."""
        self.caller.event({"event": "Running"})

    def _fail(self, error: Exception) -> None:
        """End it for an error; a fault of dsrun ends no other job."""
        if not isinstance(error, DsrunError):
            error = Fault(unexpected(error, self._hold.log))
        if self.job.programs is None:
            self._close(error)
        else:
            self.job.programs.refuse(error)

    def refuse(self, why: DsrunError) -> None:
        """End it, as it cannot run here now; its report file says so."""
        self._close(why)

    def signal(self, number: int) -> None:
        """Handle a signal that the client has got."""
        if self.job.programs is None:
            if number in self._ends | STOP_SIGNALS:
                self._close(_ClientGone(number))
        elif self._relay is not None:
            control.send(self.job.programs, number)
        elif number in self._ends:
            self.job.programs.end(number)
        elif number != signal.SIGTSTP:
            self.job.programs.pass_on(number)

    def stop(self, grace: object) -> None:
        """Stop it, with another grace than its own if that is a number of seconds.

        Raises:
            UsageError: the grace is not a number of seconds.
        """
        if self.job.programs is None:
            self.end(signal.SIGTERM)
        else:
            control.stop(self.job.programs, grace)

    def end(self, number: int) -> None:
        """Stop it, as the hold ends: by this signal, or with 0 because it is released."""
        why = "" if number else RELEASED
        if self.job.programs is None:
            self._close(_ClientGone(number or signal.SIGTERM, why))
        else:
            self.job.programs.end(number or signal.SIGTERM, why)

    def _on_client_gone(self) -> None:
        left = self._detachment is not None and self._detachment.complete
        if self.job_id in self._hold.runs and not left:
            self.end(signal.SIGHUP)

    # -- the end ------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Give the nodes back, and end it."""
        programs = self.job.programs
        assert programs is not None
        nodes, ending = programs.leave(), programs.conclude()
        self._hold.nodes.settle(nodes)
        self._end(ending)

    def _close(self, why: DsrunError) -> None:
        """End it without a run."""
        self._end(Ending(self.job_id, why))

    def _end(self, ending: Ending) -> None:
        """Let the slots go, and answer once others have been told and all output is written."""
        self._had = self._hold.free(self)
        system.close(self._streams[0])
        self.job.end(ending)

    def _writes(self) -> bool:
        """Return whether --report_file is written here: unless the client does it and still can.

        A picture is drawn here in any case, where it is known what has happened. By the name of a
        stream this process has one of its own, and not that of a client that has gone.
        """
        path = self.spec.output.report_file
        if self._request.get("relay") is True or is_page(path):
            return True
        return not self.caller.open and path not in STREAMS

    def _leave(self, ending: Ending) -> None:
        """Have a detached job kept, then answer."""
        if self._detachment is None:
            self._answer(ending)
            return
        from ..job.aside import aside

        keep = partial(self._detachment.keep, ending, self._hold.log)
        aside(self._loop, [keep], lambda: self._answer(ending))

    def _answer(self, ending: Ending) -> None:
        """Answer, and let the hold go on without it, if it had its slots or waited for them."""
        if isinstance(ending.error, DsrunError):
            self.caller.refuse(ending.error, self._request)
        else:
            end = {"code": ending.code, "report": ending.data, "text": ending.text}
            self.caller.answer(end, self._request)
        if self._had:
            self._hold.leave()
        self._loop.call_later(0.0, _collect)


def _detachment(hold: Hold, request: Message, screen: Console, level: str) -> Detachment:
    """Return what lets a job go on without its client.

    Raises:
        UsageError: the request is not valid.
    """
    from ..detached.detachment import Detachment
    from ..detached.job_folder import is_job_folder

    folder = request["detach"]
    if not is_job_folder(folder):
        raise UsageError("invalid request to detach a job")
    return Detachment(hold.loop, folder, screen, level)


def _screen(hold: Hold, spec: JobSpec, streams: Streams) -> Console:
    """Return what prints on the client's descriptors."""
    output = spec.output
    _, *fds = streams
    return Console(
        hold.loop,
        colour=output.color,
        level=output.level,
        fold=output.fold,
        fds=(fds[0], fds[1]),
        environ=spec.environ or {},
    )


def _collect() -> None:
    """Collect what the run has left: it is full of cycles, and thresholds are for short lives."""
    gc.collect()


class _ClientGone(DsrunError):
    """The client has given up waiting, or the hold has ended."""

    def __init__(self, number: int, why: str = "") -> None:
        super().__init__(f"stopped by {why or signal.Signals(number).name} before it started")
        self.exit_code = 128 + number
