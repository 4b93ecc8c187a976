"""The process behind a job of a Python program: a runner that has a socket instead of a terminal.

The program may have threads, signal handlers, an event loop, and many jobs; a runner needs a
process for itself. The two speak the local control protocol (`control/local`). When the program
ends, for whatever reason, the socket is closed, and the job is stopped.
"""

from __future__ import annotations

import os
import signal
from _socket import socket
from contextlib import suppress
from functools import partial

from ..common import entry
from ..common.errors import DsrunError, Fault, UsageError
from ..common.loop import Loop
from ..features.jobs.runner_relay import Relay
from ..features.jobs.runner_server import LocalServer
from ..head.job import control

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..features.jobs.runner_server import LocalCaller, Verb
    from ..head.job.control import JobControl, MakePrograms
    from ..head.report.ending import Ending
    from ..specs.job import JobSpec
    from ..specs.roles import RolesSpec

    Message = dict[str, Any]

INHERIT = "inherit"
"""The output of a job goes to the standard streams of this process."""


class Service:
    """Runs its caller's only job, and serves requests about the job."""

    def __init__(self, loop: Loop) -> None:
        self.verbs: Mapping[str, Verb] = {
            "launch": self._on_launch,
            "signal": self._on_signal,
            "stop": self._on_stop,
        }
        self.gone = False
        self._loop = loop
        self._job: JobControl | None = None
        self._caller: LocalCaller | None = None
        self._early: list[Callable[[JobControl], None]] = []
        self._request: Message | None = None

    def serve(self) -> None:
        """Wait for the job, run it, answer, and wait until the caller has the answer."""
        while self._request is None and not self.gone:
            self._loop.run()
        if self._request is None or self._caller is None:
            return
        try:
            ending = self._conduct(self._caller, self._request)
            if ending.error is not None:
                raise ending.error
            self._caller.answer({"report": ending.data, "text": ending.text}, self._request)
        except DsrunError as error:
            self._caller.refuse(error, self._request)
        except Exception:
            import traceback

            self._caller.refuse(Fault(traceback.format_exc()), self._request)
        while not self.gone:
            self._loop.run()

    def close(self) -> None:
        """Stop the job, if any, because the program has ended."""
        if self.gone:
            return
        self.gone = True
        if self._job is not None and not self._job.ending:
            self._job.on_end_signal(signal.SIGHUP)
        else:
            self._loop.stop()

    def _conduct(self, caller: LocalCaller, request: Message) -> Ending:
        from ..head.job.start import backend_for, prepare

        spec, roles = _decoded(request)
        # Start this machine's node launcher now: it gets ready while the rest is imported.
        start = prepare(spec.plan, spec.settings, spec.only)
        from ..head.job.launch import launch
        from ..head.job.one_program import OneProgram

        programs: MakePrograms = OneProgram
        if roles is not None:
            from ..features.roles.runner_launch import programs_of

            programs = programs_of(roles)
        spec = spec._replace(plan=start.plan)
        relay = _relay(self._loop, caller, spec, inherits=request.get("output") == INHERIT)
        begin = partial(self._start, relay)
        return launch(spec, start, backend_for(spec), self._loop, relay, begin, programs)

    def _start(self, relay: Relay, job: JobControl) -> None:
        """Let the program observe a job that is about to begin."""
        job.observe_runs(lambda run: run.observe(partial(relay.tell, role=run.role)))
        self._job = job
        self._loop.call_later(0.0, self._catch_up)

    # -- requests ---------------------------------------------------------------------------

    def _on_launch(self, caller: LocalCaller, request: Message, _fds: list[int]) -> None:
        """Accept the job; the answer follows at its end."""
        if self._request is not None:
            raise UsageError("launch: this process already has a job")
        self._caller, self._request = caller, request
        caller.on_close.append(self.close)
        self._loop.stop()

    def _on_signal(self, _caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
        return self._act(lambda job: control.send(job, request.get("number")))

    def _on_stop(self, _caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
        return self._act(lambda job: control.stop(job, request.get("grace")))

    def _act(self, act: Callable[[JobControl], None]) -> Message:
        """Apply a request to the job; before the job starts, keep the request."""
        if self._job is None:
            self._early.append(act)
        else:
            act(self._job)
        return {}

    def _catch_up(self) -> None:
        """Apply the requests that came before the job started."""
        job, early = self._job, self._early
        assert job is not None
        for act in early:
            with suppress(DsrunError):
                act(job)
        if self.gone and not job.ending:
            job.on_end_signal(signal.SIGHUP)


def _decoded(request: Message) -> tuple[JobSpec, RolesSpec | None]:
    from ..specs import codec

    if request.get("roles") is True:
        from ..specs.roles import RolesSpec

        roles = codec.decode(RolesSpec, request.get("spec"))
        return roles.job, roles
    from ..specs.job import JobSpec

    return codec.decode(JobSpec, request.get("spec")), None


def _relay(loop: Loop, caller: LocalCaller, spec: JobSpec, *, inherits: bool) -> Relay:
    output = spec.output
    if not inherits:
        return Relay(caller, output.level)
    from ..head.output.console import Console

    screen = Console(loop, colour=output.color, level=output.level, fold=output.fold)
    return Relay(caller, output.level, screen)


def _watch(loop: Loop, pid: int, leave: Callable[[], None]) -> None:
    """Leave when the program ends: its forks may keep the socket open."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        leave()
        return
    if os.getppid() != pid:
        leave()

    def ended() -> None:
        loop.remove(fd)
        leave()

    loop.add_reader(fd, ended)


def _serve(argv: list[str]) -> int:
    """Serve the program with this pid, over this descriptor."""
    fd, pid = map(int, argv)
    os.set_inheritable(fd, False)
    loop = Loop()
    service = Service(loop)
    server = LocalServer(loop, socket(fileno=fd), service.verbs)
    for caller in server.callers:
        caller.on_close.append(service.close)
    _watch(loop, pid, service.close)
    service.serve()
    server.close()
    return 0


def start() -> None:
    """Run as the whole process."""
    entry.start(_serve)
