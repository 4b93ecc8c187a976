"""A run on held nodes for a client, which gets its output and, as the answer, its ending."""

from __future__ import annotations

import gc
import signal
from functools import partial

from ...common import signals, system
from ...common.errors import DsrunError, Fault, UsageError
from ...common.output_file import STREAMS, is_page
from ...common.unexpected import unexpected
from ...head.job import control
from ...head.job.job import RunnerJob
from ...head.job.one_program import OneProgram
from ...head.output.console import Console
from ...head.report.ending import Ending
from ...head.run.run import RunOverrides
from ..jobs.runner_relay import Relay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...head.job.control import Programs
    from ...head.output.screen import Screen
    from ...specs.job import JobSpec
    from ...specs.roles import RolesSpec
    from ..detached.runner_detachment import Detachment
    from ..jobs.runner_server import LocalCaller, Message
    from .runner import Hold

    Streams = tuple[int, ...]

STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""Signals that end a run even if its job names others. They come when the client has disconnected,
or the hold ends."""

RELEASED = "dsrun-hold --release"
"""The reason for the end of a run in messages, if no signal is the reason."""


class HeldRun:
    """A request of a client, from its arrival to its answer.

    Attributes:
        job: the job; without programs while it waits.
        since: the start of the run, in seconds since the epoch; None while it waits.
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
        """Prepare a run.

        Args:
            hold: the hold of the nodes.
            spec: the job.
            caller: the client.
            request: the request. With `relay`, the client gets events, and output as chunks. With
                `detach`, a job folder, it gets an event once all workers run, and may disconnect.
            streams: descriptors of the client, closed at the end: standard input, and the output
                streams if this process prints the output.
            roles: the roles of the job; None for a job of one program.
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
        self.job = RunnerJob(spec, console, hold.loop, self._keep, self._writes)
        self._had = False
        caller.on_close.append(self._on_client_gone)

    @property
    def job_id(self) -> str:
        """The id of the job."""
        return self.spec.job_id

    def wait(self, blockers: Sequence[str]) -> None:
        """Tell the user which jobs use the wanted slots."""
        self.job.console.log(f"waiting for job {', '.join(blockers)} on the same slots")

    def start(self) -> None:
        """Start the run, whose slots are free."""
        self.since = system.time()
        try:
            self._start_programs()
        except Exception as error:
            self._fail(error)

    def _start_programs(self) -> None:
        self.job.open()
        self._hold.nodes.check(self.spec.plan)
        programs = self._prepared()
        self.job.attach(programs)
        self._watch(programs)
        self.job.start()

    def _prepared(self) -> Programs:
        fleet, console = self._hold.fleet, self.job.console
        if self._roles is None:
            owner = RunOverrides(on_over=self._finish)
            return OneProgram(self.spec, fleet, console, owner, self._streams[0])
        from ..roles.runner_job import RolesJob

        return RolesJob(self._roles, fleet, console, self._finish)

    def _watch(self, programs: Programs) -> None:
        """Observe programs for the client, before they start."""
        if (relay := self._relay) is not None:
            programs.observe_runs(lambda run: run.observe(partial(relay.tell, role=run.role)))
        if self._detachment is not None:
            self._detachment.watch(programs, partial(self._detachment.detach, self._tell_running))

    def _tell_running(self) -> None:
        """Tell the client that all workers of its detached job run: it may disconnect."""
        self.caller.event({"event": "Running"})

    def _fail(self, error: Exception) -> None:
        """End the run with an error; a bug in dsrun must end no other job."""
        if not isinstance(error, DsrunError):
            error = Fault(unexpected(error, self._hold.log))
        if self.job.programs is None:
            self._close(error)
        else:
            self.job.programs.fail(error)

    def fail(self, why: DsrunError) -> None:
        """End a run that cannot start now, with its report file."""
        self._close(why)

    def signal(self, number: int) -> None:
        """Handle a signal that the client received."""
        if self.job.programs is None:
            if number in self._ends | STOP_SIGNALS:
                self._close(_ClientGone(number))
        elif self._relay is not None:
            control.send(self.job.programs, number)
        elif number in self._ends:
            self.job.programs.on_end_signal(number)
        elif number != signal.SIGTSTP:
            self.job.programs.pass_on(number)

    def stop(self, grace: object) -> None:
        """Stop the run; `grace` replaces the job's own grace period if it is a number of seconds.

        Raises:
            UsageError: the grace is not a number of seconds.
        """
        if self.job.programs is None:
            self.stop_with_hold(signal.SIGTERM)
        else:
            control.stop(self.job.programs, grace)

    def stop_with_hold(self, number: int) -> None:
        """Stop the run at the end of the hold: by this signal, or by 0 for a release."""
        why = "" if number else RELEASED
        if self.job.programs is None:
            self._close(_ClientGone(number or signal.SIGTERM, why))
        else:
            self.job.programs.on_end_signal(number or signal.SIGTERM, why)

    def _on_client_gone(self) -> None:
        left = self._detachment is not None and self._detachment.complete
        if self.job_id in self._hold.runs and not left:
            self.stop_with_hold(signal.SIGHUP)

    # -- the end ------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Return the nodes to the hold, and end the run."""
        programs = self.job.programs
        assert programs is not None
        nodes = programs.release_nodes()
        try:
            ending = programs.make_ending()
        except Exception as error:  # it holds text of workers; a bug must end no other job
            ending = Ending(self.job_id, Fault(unexpected(error, self._hold.log)))
        self._hold.nodes.recover(nodes)
        self._finish_with(ending)

    def _close(self, why: DsrunError) -> None:
        """End the request before its programs exist."""
        self._finish_with(Ending(self.job_id, why))

    def _finish_with(self, ending: Ending) -> None:
        """Free the slots, report the ending, then answer."""
        self._had = self._hold.free(self)
        system.close(self._streams[0])
        self.job.finish(ending)

    def _writes(self) -> bool:
        """Return whether this process, and not the client, writes --report_file.

        Pictures are always drawn here, by the process that has the history. A stream's name, such
        as /dev/stdout, means the client's stream: without a client, nothing is written.
        """
        path = self.spec.output.report_file
        if self._request.get("relay") is True or is_page(path):
            return True
        return not self.caller.open and path not in STREAMS

    def _keep(self, ending: Ending) -> None:
        """Save the ending of a detached job, then answer."""
        if self._detachment is None:
            self._answer(ending)
            return
        from ...common.in_thread import in_thread

        keep = partial(self._detachment.keep, ending, self._hold.log)
        in_thread(self._loop, [keep], lambda: self._answer(ending))

    def _answer(self, ending: Ending) -> None:
        """Answer, and stop counting the run as a user of the hold if it was counted."""
        if isinstance(ending.error, DsrunError):
            self.caller.refuse(ending.error, self._request)
        else:
            end = {"code": ending.code, "report": ending.data, "text": ending.text}
            self.caller.answer(end, self._request)
        if self._had:
            self._hold.release()
        self._loop.call_later(0.0, _collect)


def _detachment(hold: Hold, request: Message, screen: Console, level: str) -> Detachment:
    """Return the `Detachment` that keeps a job running without its client.

    Raises:
        UsageError: the request is invalid.
    """
    from ..detached.runner_detachment import Detachment
    from ..detached.runner_job_folder import is_job_folder

    folder = request["detach"]
    if not is_job_folder(folder):
        raise UsageError("invalid request to detach a job")
    return Detachment(hold.loop, folder, screen, level)


def _screen(hold: Hold, spec: JobSpec, streams: Streams) -> Console:
    """Return a console that prints on the client's descriptors."""
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
    """Collect garbage now: a run leaves many cycles, which the thresholds find late."""
    gc.collect()


class _ClientGone(DsrunError):
    """The end of a waiting run: its client has disconnected, or the hold has ended."""

    def __init__(self, number: int, why: str = "") -> None:
        super().__init__(f"stopped by {why or signal.Signals(number).name} before it started")
        self.exit_code = 128 + number
