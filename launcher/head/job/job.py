"""One job in the runner or a hold, from its opening line to its end."""

from __future__ import annotations

import os

from ...backends import BACKENDS
from ...common.errors import NodeError, exhausted
from ...common.output_file import is_page
from ..report.ending import Ending
from .banner import banner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop
    from ...features.jobs.runner_socket import JobSocket
    from ...specs.job import JobSpec
    from ..output.screen import Screen
    from .control import Programs


class RunnerJob:
    """A job: its console, the socket for `dsrun-job`, its report file, and its end.

    Terminal, hold and Python API differ only in the console and in `leave`. The programs are
    `OneProgram` or, for a job of several roles, `RolesJob`.

    Attributes:
        console: the destination of output and messages.
        programs: the programs of the job; None before `attach`.
    """

    def __init__(
        self,
        spec: JobSpec,
        console: Screen,
        loop: Loop,
        leave: Callable[[Ending], None],
        writes: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepare a job.

        Args:
            spec: the job.
            console: the destination of output and messages; closed at the end.
            loop: the loop that runs the job.
            leave: called from the loop with the ending, after everybody else has been told.
            writes: returns whether this process writes --report_file.
        """
        self.spec = spec
        self.console, self.loop = console, loop
        self._leave, self._writes = leave, writes
        self.programs: Programs | None = None
        self._draw: Callable[[Ending], str] | None = None
        self._socket: JobSocket | None = None
        self._closed = False

    # -- the start --------------------------------------------------------------------------

    def open(self) -> None:
        """Log the opening line, and notes for the user."""
        spec, log = self.spec, self.console.log
        plan, origin = spec.plan, spec.origin
        log(origin.words, "debug")
        log(banner(plan, origin.source, spec.job_id), "debug" if origin.quiet else "info")
        for note in origin.notes:
            log(note)
        if spec.travel.withheld and not BACKENDS[plan.launcher].runs_here:
            names = ", ".join(spec.travel.withheld)
            log(
                f"not sent to the nodes because they look like secrets: {names}"
                " (send one with --export NAME)"
            )

    def attach(self, programs: Programs) -> None:
        """Set the programs of the job, which have not started."""
        if is_page(self.spec.output.report_file):
            from ...features.watch.runner import painter

            self._draw = painter(self.loop.clock, programs.spec, programs.observe_runs)
        self.console.on_broken_pipe = programs.on_broken_output
        self.programs = programs

    def start(self) -> None:
        """Start the programs, which open the socket for dsrun-job."""
        programs = self.programs
        assert programs is not None
        programs.start(lambda: self._listen(programs))

    def _listen(self, programs: Programs) -> None:
        if self._closed:
            return
        from ...features.jobs.runner_socket import JobSocket, verbs_of

        verbs = verbs_of(programs, programs.requests())
        self._socket = JobSocket(self.loop, self.spec.job_id, verbs, self.console.log)

    def close(self) -> None:
        """Stop accepting requests of dsrun-job."""
        self._closed = True
        if self._socket is not None:
            self._socket.close()

    # -- the end ----------------------------------------------------------------------------

    def finish(self, ending: Ending) -> None:
        """Report the ending to the user, observers, hooks and the report file; then call `leave`.

        Slow work (disks, other programs) is done in a thread. Each step is done at most once.
        """
        self.close()
        if shown := ending.words(self.console.still_shows):
            self.console.print_report(shown)
        elif line := ending.good_end:
            self.console.log(line)
        hooks = self.programs.tell_end(ending) if self.programs is not None else ()
        works = [*hooks, *self._error_file(ending)]
        self._aside(works, lambda: self.console.flush(lambda: self._write(ending)))

    def _error_file(self, ending: Ending) -> list[Callable[[], object]]:
        """Return functions that write the error file for the program that started dsrun."""
        variable = "TORCHELASTIC_ERROR_FILE"
        path = (os.environ if self.spec.environ is None else self.spec.environ).get(variable)
        if not path or not ending.code or self.spec.role:
            return []
        from ..report import error_file, file

        text = error_file.text(ending)
        return [lambda: file.write(path, text, name=variable)] if text else []

    def _write(self, ending: Ending) -> None:
        """Write --report_file, once all output has been written or has failed."""
        if self.console.has_lost_output:
            ending = ending.unwritten()
        path = self.spec.output.report_file
        if path is None or not self._writes():
            self._finish(ending)
            return
        from ..report import file

        problems: list[str] = []

        def wrote() -> None:
            for why in problems:
                self.console.log(f"--report_file {path}: {why}", "error")
            self._finish(ending.unwritten() if problems else ending)

        self._aside([lambda: file.write(path, self._text(ending), problems.append)], wrote)

    def _text(self, ending: Ending) -> str:
        from ...features.watch.runner import report_text

        path = self.spec.output.report_file
        return report_text(path, ending, self.loop.clock, self._draw, self.spec)

    def _tell(self, ending: Ending) -> None:
        if self._socket is not None:
            self._socket.tell(ending)

    def _finish(self, ending: Ending) -> None:
        self._tell(ending)
        self.console.finish(lambda: self._leave(ending))

    def _aside(self, works: Sequence[Callable[[], object]], then: Callable[[], None]) -> None:
        if not works:
            then()
            return
        from ...common.in_thread import in_thread

        in_thread(self.loop, works, then)

    def report_crash(self, error: Exception) -> None:
        """Write --report_file for an error that stops the loop.

        The error is a bug in dsrun, or a lack of files, memory or threads.
        """
        why = exhausted(error)
        ending = Ending(self.spec.job_id, NodeError(why) if why else error)
        if self.spec.output.report_file is not None:
            from ..report import file

            file.write(self.spec.output.report_file, self._text(ending))
        self._tell(ending)
        self.console.close()
