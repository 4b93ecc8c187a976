"""dsrun --on NAME: plans a job here, and runs it on the nodes of a hold.

The hold gets the standard streams of this process, and writes the job's output to them. It also
gets the signals that arrive here. If this process ends, the hold stops the job.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from ...common import entry, signals
from ...common.errors import OUTPUT, DsrunError, LostError, NodeError
from ...common.loop import Loop
from ...common.output_file import is_page
from ...control import frames
from ...control.local_client import checked
from ...planning import output_files, rendezvous
from ...specs import codec
from ...specs.job import JobSpec, new_job_id
from . import plan_held as held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from ...cli.options import Options
    from ...cli.parser import Command
    from ...control.local_client import LocalClient
    from ...specs.roles import RoleSpec, RolesSpec
    from ..roles.plan_table import RoleTable

    PlanOnHold: TypeAlias = Callable[[held.HoldAnswer], JobSpec | RolesSpec]

FORWARDED = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT}
"""Signals that are forwarded besides those that end the job. Ctrl-Z stops this process alone."""

INTERRUPTS = 3
"""Number of interrupts after which this process ends, whatever the hold does."""

GONE = "it has ended unexpectedly"

RUNNING = -1
"""Replacement of an exit code: all workers of a detached job run, and the hold keeps it running."""

LAST_WAIT = 1.0
"""Seconds for the hold to answer after the last interrupt."""


def run(command: Command) -> int:
    """Run a command line with --on; return the exit code.

    Raises:
        DsrunError: the job cannot be run, or has failed; none of its processes is left running.
    """
    command = rendezvous.apply(command.with_torchruns_logs())
    held.check(command)
    return _run(command, partial(held.held_job, command))


def run_roles(command: Command, tables: Sequence[RoleTable]) -> int:
    """Run a job of several roles on held nodes; return the exit code.

    Raises:
        DsrunError: the job cannot be run, or has failed; none of its processes is left running.
    """
    held.check_given(command.options.on or "", command.given)
    return _run(command, partial(held.held_roles, command, tables))


def _run(command: Command, plan: PlanOnHold) -> int:
    """Run a job of one program, or of several roles, as `plan` makes it of the held nodes."""
    options = command.options
    with held.find(options.on or "") as client:
        planned = _planned(command, client, plan)
        spec = planned if isinstance(planned, JobSpec) else planned.job
        roles = () if isinstance(planned, JobSpec) else planned.roles
        if not roles and spec.sync is not None:
            from ..sync.runner_source import SyncSource

            SyncSource(spec.sync, os.environ)  # The hold finds the hashes in the cache.
        if options.dry_run:
            return _show(planned, options)
        request = {"do": "run", "roles": bool(roles), "spec": codec.encode(planned)}
        request["busy"] = options.on_busy
        if options.detach:
            return _detach(spec, client, options, request, roles)
        return _run_for(client, spec, request)


def _run_for(client: LocalClient, spec: JobSpec, request: dict[str, Any]) -> int:
    """Make a hold run a job, and write its report; return the exit code.

    Raises:
        DsrunError: the hold refuses the job, or is gone.
    """
    job = partial(_report, spec, ClientRun(client, spec, request))
    if not spec.supervision.requeue_codes:
        return job()
    from ..schedulers.runner_requeue import requeueing

    return requeueing(spec.supervision.requeue_codes, job)


def _planned(command: Command, client: LocalClient, plan: PlanOnHold) -> JobSpec | RolesSpec:
    """Return a job on the nodes of a hold, as `plan` makes it of these.

    Raises:
        UsageError: options conflict, or name something that does not exist.
        NodeError: nodes are lost at present; --report_file says so.
    """
    options = command.options
    script = next(iter(command.program), "")
    output_files.check(options, output_files.inputs(options, script))
    try:
        return plan(held.nodes_of(held.ask(client, {"do": "describe"})))
    except NodeError as error:
        from ...planning.policies import report_file

        _write_refusal(report_file(options, os.environ), new_job_id(), error)
        raise


def _show(planned: JobSpec | RolesSpec, options: Options) -> int:
    if not isinstance(planned, JobSpec):
        from ..roles.command import show

        return show(planned, [], options)
    from ...planning import dry_run

    entry.write(f"{(dry_run.as_json if options.json else dry_run.as_table)(planned, [])}\n")
    return 0


def _detach(
    spec: JobSpec,
    client: LocalClient,
    options: Options,
    request: dict[str, Any],
    roles: Sequence[RoleSpec] = (),
) -> int:
    """Run a job detached, and print its id once all workers run; return the exit code."""
    from ..detached.command import check_held
    from ..detached.runner_job_folder import remove
    from ..detached.runner_new_folder import new_folder

    check_held(options)
    folder = new_folder(spec, os.environ, client.pid, options.on or "", roles)
    try:
        code = _report(spec, ClientRun(client, spec, {**request, "detach": folder}))
    except DsrunError:
        remove(folder)  # if the hold has not even started
        raise
    if code == RUNNING:
        entry.write(f"{spec.job_id}\n")
    return max(code, 0)


def _report(spec: JobSpec, run: ClientRun) -> int:
    """Wait for the end of a job, write --report_file and return the exit code."""
    try:
        answer = run.wait()
        if "running" in answer:
            return RUNNING
        code, report = answer["code"], answer["report"]
    except DsrunError as error:
        _write_refusal(spec.output.report_file, spec.job_id, error)
        raise
    return int(code) if _write(spec.output.report_file, report) else int(code) or OUTPUT


def _write(path: str | None, report: dict[str, object]) -> bool:
    """Write --report_file if there is one; return whether that was possible."""
    if path is None:
        return True
    from ...head.report import document, file

    # The hold, which knows the history, has drawn a picture.
    return is_page(path) or file.write(path, document.as_text(report))


def _write_refusal(path: str | None, job_id: str, error: DsrunError) -> None:
    """Write --report_file, if any, for a job that has not run."""
    if path is None:
        return
    from ...head.report import file
    from ...head.report.ending import Ending
    from ..watch.runner import report_text

    file.write(path, report_text(path, Ending(job_id, error), time.monotonic))


class ClientRun:
    """A job that a hold runs for this process."""

    def __init__(self, client: LocalClient, spec: JobSpec, request: dict[str, Any]) -> None:
        """Prepare to ask for a job; a detached one, whose folder is `detach`, has no input."""
        self._client = client
        self._spec = spec
        self._request = request
        self._loop = Loop()
        self._number = self._interrupts = 0
        self._end: dict[str, Any] | DsrunError = LostError("")

    def wait(self) -> dict[str, Any]:
        """Run the job, and return the answer at its end.

        Raises:
            DsrunError: the hold refuses the job, or is gone.
        """
        self._handle_signals()
        self._ask()
        self._loop.add_reader(self._client.fileno(), self._receive)
        self._loop.run()
        if isinstance(self._end, DsrunError):
            raise self._end
        return checked(self._end)

    def _ask(self) -> None:
        source = 0
        if "detach" in self._request:
            source = os.open(os.devnull, os.O_RDONLY)
        elif self._spec.output.stdin:
            source = _input(self._loop)
        self._number = self._client.send(self._request, (source, 1, 2))
        if source:
            os.close(source)

    def _handle_signals(self) -> None:
        """Forward signals; a SIGHUP that was ignored at the start stays so (nohup)."""
        names = self._spec.supervision.end_signals
        ends = {signals.parse("--signals_to_handle", name) for name in names}
        if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
            ends.discard(signal.SIGHUP)
        self._loop.on_signals({*ends, *FORWARDED}, self._forward)

    def _forward(self, number: int) -> None:
        self._interrupts += number == signal.SIGINT
        if self._interrupts == INTERRUPTS:
            self._loop.call_later(LAST_WAIT, self._finish_unanswered)
        try:
            self._client.send({"do": "signal", "number": number})
        except LostError:
            self._lose(GONE)

    def _receive(self) -> None:
        try:
            arrived = self._client.receive()
        except LostError as error:
            self._lose(str(error))
            return
        if arrived is None:
            self._lose(GONE)
            return
        for one in arrived:
            if one.kind == frames.ANSWER and one.message.get("id") == self._number:
                self._finish(one.message)
            elif one.kind == frames.EVENT and one.message.get("event") == "Running":
                self._finish({"ok": True, "running": True})

    def _lose(self, why: str) -> None:
        self._finish(LostError(f"lost {self._spec.origin.source}: {why}"))

    def _finish_unanswered(self) -> None:
        """End although the hold has not answered."""
        left = DsrunError(f"exiting now; {self._spec.origin.source} may still run the job")
        left.exit_code = 128 + signal.SIGINT
        self._finish(left)

    def _finish(self, end: dict[str, Any] | DsrunError) -> None:
        self._end = end
        self._loop.stop()


def _input(loop: Loop) -> int:
    """Return the hold's standard input for the job: a pipe if ours is a terminal.

    Only a process in the foreground may read from its terminal.
    """
    if not os.isatty(0):
        return os.dup(0)
    from ..exec.command_input_pipe import InputPipe

    return InputPipe(loop).read_fd
