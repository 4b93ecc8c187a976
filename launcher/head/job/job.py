"""One job in the runner or a hold: begun and ended once, whoever has asked for it."""

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
    from ...specs.job import JobSpec
    from ..output.screen import Screen
    from .control import Programs
    from .job_socket import JobSocket


class RunnerJob:
    """A job: its console, the socket for `dsrun-job`, its report file, and its end.

    A terminal, a hold and a Python program only give it another console and another exit. Its
    programs are one (`OneProgram`), or those of its roles (`RolesJob`).

    Attributes:
        spec: the job.
        console: where its output and messages go.
        loop: runs it.
        programs: what it runs; None until that is attached.
    """

    def __init__(
        self,
        spec: JobSpec,
        console: Screen,
        loop: Loop,
        leave: Callable[[Ending], None],
        writes: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepare it.

        Args:
            spec: what it is.
            console: where its output and messages go; is closed at the end.
            loop: runs it.
            leave: called from the loop with its ending once everybody else has been told.
            writes: returns whether --report_file is written here.
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
        """Take its programs, which have not begun."""
        if is_page(self.spec.output.report_file):
            from ..watch.attach import painter

            self._draw = painter(self.loop.clock, programs.spec, programs.observe_runs)
        self.console.on_broken_pipe = programs.on_broken_output
        self.programs = programs

    def begin(self) -> None:
        """Begin its programs, which have it take requests of dsrun-job."""
        programs = self.programs
        assert programs is not None
        programs.begin(lambda: self._listen(programs))

    def _listen(self, programs: Programs) -> None:
        if self._closed:
            return
        from .job_socket import JobSocket, verbs_of

        verbs = verbs_of(programs, programs.requests())
        self._socket = JobSocket(self.loop, self.spec.job_id, verbs, self.console.log)

    def close(self) -> None:
        """Take no more requests of dsrun-job."""
        self._closed = True
        if self._socket is not None:
            self._socket.close()

    # -- the end ----------------------------------------------------------------------------

    def end(self, ending: Ending) -> None:
        """Tell everybody how it has ended: the user, observers, hooks, the report file; then leave.

        What may wait for disks and programs is done in a thread, and nothing more than once.
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
        """Return what copies the error of the first failure for whoever has started this."""
        variable = "TORCHELASTIC_ERROR_FILE"
        path = (os.environ if self.spec.environ is None else self.spec.environ).get(variable)
        if not path or not ending.code or self.spec.role:
            return []
        from ..report import error_file, file

        text = error_file.text(ending)
        return [lambda: file.write(path, text, name=variable)] if text else []

    def _write(self, ending: Ending) -> None:
        """Write --report_file, once it is known whether all output could be written."""
        if self.console.has_lost_output:
            ending = ending.unwritten()
        path = self.spec.output.report_file
        if path is None or not self._writes():
            self._close(ending)
            return
        from ..report import file

        problems: list[str] = []

        def wrote() -> None:
            for why in problems:
                self.console.log(f"--report_file {path}: {why}", "error")
            self._close(ending.unwritten() if problems else ending)

        self._aside([lambda: file.write(path, self._text(ending), problems.append)], wrote)

    def _text(self, ending: Ending) -> str:
        from ..watch.attach import report_text

        path = self.spec.output.report_file
        return report_text(path, ending, self.loop.clock, self._draw, self.spec)

    def _tell(self, ending: Ending) -> None:
        """Tell those who wait for the end of the job, and for nothing else."""
        if self._socket is not None:
            self._socket.tell(ending)

    def _close(self, ending: Ending) -> None:
        self._tell(ending)
        self.console.finish(lambda: self._leave(ending))

    def _aside(self, works: Sequence[Callable[[], object]], then: Callable[[], None]) -> None:
        if not works:
            then()
            return
        from .aside import aside

        aside(self.loop, works, then)

    def crash(self, error: Exception) -> None:
        """Write --report_file for an error after which the loop cannot go on: a fault of dsrun.

        Or this machine gives it no more files, memory or threads.
        """
        why = exhausted(error)
        ending = Ending(self.spec.job_id, NodeError(why) if why else error)
        if self.spec.output.report_file is not None:
            from ..report import file

            file.write(self.spec.output.report_file, self._text(ending))
        self._tell(ending)
        self.console.close()
