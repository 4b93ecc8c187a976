"""Run the commands of a part, each in its own session, within the time limit of the part."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"

GRACE = 3
"""Seconds for workers to end after SIGTERM."""

LAST = 10.0
"""Seconds for a command to end after that, before it is killed."""

PAUSE = 0.05
"""Seconds between two reads of a command's output."""

KEPT = 6000
"""Characters of what a command has printed that are reported."""


class OverLimit(Exception):
    """The time of a part is over; the text says what was running."""


class NotSeen(Exception):
    """A command ended before it printed the expected text."""


class Ran(NamedTuple):
    """The result of a command.

    Attributes:
        words: its command line.
        code: its exit code, minus a signal's number, or None if it did not end on its own.
        text: its output on both streams.
        seconds: how long it took.
        report: the report of the job, {} for none.
    """

    words: tuple[str, ...]
    code: int | None
    text: str
    seconds: float = 0.0
    report: Mapping[str, Any] = {}

    @property
    def json(self) -> Any:
        """The last line that is an object of JSON.

        Raises:
            LookupError: there is none.
        """
        for line in reversed(self.text.splitlines()):
            _, brace, rest = line.partition("{")
            with suppress(ValueError):
                return json.loads(brace + rest)
        raise LookupError(f"{self.words[1]} printed no JSON: {self.text[-200:]!r}")


class Desk:
    """A folder for the files of commands, their Python, and their time.

    Attributes:
        ran: the commands of the part so far.
    """

    def __init__(
        self,
        folder: Path,
        python: str,
        environ: Mapping[str, str],
        whole: float,
        patience: float = 1.0,
    ) -> None:
        """Begin.

        Args:
            folder: where commands run.
            python: the interpreter.
            environ: without dsrun's own variables, and a person's settings, which do not count.
            whole: seconds for all parts together.
            patience: by what all limits are multiplied.
        """
        self.folder, self._python, self._patience = folder, python, patience
        self._last = time.monotonic() + whole * patience
        self._environ = {
            **{name: value for name, value in environ.items() if not name.startswith("DSRUN_")},
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PYTHONUNBUFFERED": "1",
        }
        self._end = time.monotonic()
        self.ran: list[Ran] = []

    def begin(self, seconds: float) -> None:
        """Begin a part with this many seconds, and no more than all parts have left."""
        self.ran = []
        self._end = min(time.monotonic() + seconds * self._patience, self._last)

    @property
    def left(self) -> float:
        """Seconds that the part has left."""
        return max(0.0, self._end - time.monotonic())

    def wait(self, condition: Callable[[], object], seconds: float) -> None:
        """Return once a condition holds, after this many seconds, or at the part's end."""
        end = time.monotonic() + min(seconds * self._patience, self.left)
        while time.monotonic() < end and not condition():
            time.sleep(PAUSE)

    def program(self, name: str, *words: str, **variables: str) -> Ran:
        """Run one of the programs alone, without dsrun, to its end."""
        with self._started([self._python, str(PROGRAMS / name), *words], variables) as running:
            return running.end()

    def tool(self, name: str, *words: str, **variables: str) -> Ran:
        """Run one of dsrun's commands to its end."""
        with self._started([self._python, str(CHECKOUT / "bin" / name), *words], variables) as one:
            return one.end()

    def other(self, *words: str) -> Ran:
        """Run another command to its end."""
        with self._started([*words], {}) as running:
            return running.end()

    def job(self, *words: str, **variables: str) -> Ran:
        """Run `dsrun` to its end: options, the name of a program, and its arguments."""
        with self.started_job(*words, **variables) as running:
            return running.end()

    @contextmanager
    def started_job(self, *words: str, **variables: str) -> Iterator[Running]:
        """Run `dsrun` within the block; it is stopped at its end, and its report is read."""
        report = self.folder / f"job-{len(self.ran)}-{time.monotonic_ns()}.json"
        options = ["--grace", str(GRACE), "--report_file", str(report)]
        named = [str(PROGRAMS / one) if (PROGRAMS / one).is_file() else one for one in words]
        command = [self._python, str(CHECKOUT / "bin" / "dsrun"), *options, *named]
        with self._started(command, variables, report) as running:
            yield running

    @contextmanager
    def started_program(self, name: str, *words: str) -> Iterator[Running]:
        """Run one of the programs alone within the block."""
        with self._started([self._python, str(PROGRAMS / name), *words], {}) as running:
            yield running

    @contextmanager
    def _started(
        self, words: list[str], variables: Mapping[str, str], report: Path | None = None
    ) -> Iterator[Running]:
        if not self.left:
            raise OverLimit(f"no time left for {' '.join(words[1:])}")
        output = self.folder / f"output-{time.monotonic_ns()}.txt"
        environ = {**self._environ, **variables}
        with output.open("wb") as file:
            process = subprocess.Popen(
                words,
                cwd=self.folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        running = Running(self, process, tuple(words), output, report)
        try:
            yield running
        finally:
            running.stop()
            self.ran.append(running.seen())


class Running:
    """A command that runs."""

    def __init__(
        self,
        desk: Desk,
        process: subprocess.Popen[bytes],
        words: tuple[str, ...],
        output: Path,
        report: Path | None,
    ) -> None:
        """Follow a process whose output goes to a file."""
        self.pid = process.pid
        self._desk, self._process, self._words = desk, process, words
        self._output, self._report = output, report
        self._began = time.monotonic()

    @property
    def text(self) -> str:
        """Its output so far."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    def until(self, pattern: str) -> re.Match[str]:
        """Return the first match in its output, as soon as there is one.

        Raises:
            NotSeen: it ended without a match.
            OverLimit: the time of the part is over.
        """
        while True:
            over = self._process.poll() is not None
            if found := re.search(pattern, self.text):
                return found
            if over:
                raise NotSeen(f"{self._shown} ended without {pattern!r}: {self.text[-300:]!r}")
            if not self._desk.left:
                raise OverLimit(f"{self._shown} did not print {pattern!r}: {self.text[-300:]!r}")
            time.sleep(PAUSE)

    def end(self) -> Ran:
        """Wait for its end.

        Raises:
            OverLimit: the time of the part is over.
        """
        try:
            self._process.wait(self._desk.left)
        except subprocess.TimeoutExpired:
            text = f"{self._shown} did not end: {self.text[-300:]!r}"
            raise OverLimit(text) from None
        return self.seen()

    def stop(self) -> Ran:
        """Stop it with SIGTERM if it still runs, and then the rest of its session with SIGKILL."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(GRACE + LAST)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)  # its leader is not reaped: nobody else's
                self._process.wait()
        return self.seen()

    def seen(self) -> Ran:
        """Return its result so far."""
        report: Mapping[str, Any] = {}
        with suppress(OSError, ValueError):
            report = json.loads(self._report.read_text()) if self._report else {}
        seconds = time.monotonic() - self._began
        return Ran(self._words, self._process.poll(), self.text, seconds, report)

    @property
    def _shown(self) -> str:
        return " ".join(word.replace(f"{CHECKOUT}/", "") for word in self._words[1:])
