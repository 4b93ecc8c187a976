"""Keeps a detached job's output, its events and its end, in its folder."""

from __future__ import annotations

import json
import os
import time
from functools import partial

from ...head.output.tail import Tail
from ...head.run.events import KEPT, RESULT, RankOutput, Started, as_json
from . import runner_job_folder as job_folder
from . import runner_journal as journal
from .runner_journal_writer import JournalWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop
    from ...head.report.ending import Ending
    from ...head.run.events import RunEvent
    from ...head.run.run_view import ObservedRun

LAST_WAIT = 10.0
"""Seconds for the disk to save the rest at the end of a job."""


REMOVED = "its file was removed while the job ran"
"""The reason for missing output if its file is gone."""


class JobKeeper:
    """Observes a run, or all runs of a job's roles."""

    def __init__(self, folder: str, loop: Loop, warn: Callable[[str], None]) -> None:
        """Save to a folder; `warn` is called from the loop about data that cannot be saved."""
        self.folder = folder
        self._known = job_folder.open_folder(folder)
        self._loop = loop
        self._warn = warn
        self._began, self._observed = loop.clock(), False
        self._started = False
        self._unkept = ""
        self._tails: dict[str, Tail] = {}
        self._newest = ""
        loop.open_to_threads()
        self._journal = JournalWriter(os.path.join(folder, job_folder.JOURNAL), self._failed)

    def observe(self, run: ObservedRun) -> None:
        """Save the events of a run; times count from the first run."""
        if not self._observed:
            self._began, self._observed = run.view().record.began, True
        run.observe(partial(self.on_event, role=run.role))

    def message(self, text: str) -> None:
        """Keep a message of dsrun's own."""
        self._put(journal.MESSAGE, text.encode("utf-8", "replace"))

    def on_event(self, event: RunEvent, role: str = "") -> None:
        """Save an event; most are output."""
        if type(event) is RankOutput:
            if event.stream != RESULT:
                self._newest = role
                self._tails.setdefault(role, Tail(0)).add(*event)
                self._put(event.stream, event.data, event.rank, event.host, role)
        elif type(event) in KEPT:
            self._started = self._started or type(event) is Started
            self._put(journal.EVENT, json.dumps(as_json(event)).encode(), role=role)

    def _put(self, kind: int, data: bytes, rank: int = 0, host: str = "", role: str = "") -> None:
        at = self._loop.clock() - self._began
        self._journal.put(journal.JournalEntry(0, at, kind, data, rank, host, role))

    def _failed(self, why: str) -> None:
        """Report why output is lost; called in the thread of the journal."""
        self._unkept = why
        told = f"cannot save the output of this job in {self.folder} ({why}); the job goes on,"
        self._loop.call_soon_threadsafe(lambda: self._warn(f"{told} and its later output is lost"))

    def finish(self, ending: Ending) -> None:
        """Write the ending of a job, waiting for the disk; leave nothing if it never started.

        If the folder was removed, it is recreated for commands that wait for the end. Folders of
        other jobs that are too old, or too many, are removed.

        Raises:
            OSError: the end cannot be written.
        """
        self._journal.close(LAST_WAIT)
        if not self._started:
            job_folder.remove(self.folder)
            return
        if self._known is not None:
            self._restore(self._known)
        now = time.time()
        text = ending.text
        end = job_folder.KeptEnd(now, ending.code, text, ending.data, self._last_line, self._unkept)
        job_folder.finish(self.folder, end)
        job_folder.prune(os.path.dirname(self.folder), now)

    def _restore(self, known: job_folder.JobFolder) -> None:
        if not os.path.exists(known.journal):
            self._unkept = self._unkept or REMOVED
        job_folder.restore(self.folder, known.about)

    @property
    def _last_line(self) -> str:
        """The newest line of output, with its rank and role before it."""
        tail = self._tails.get(self._newest, Tail(0))
        line, role = tail.last_line(tail.newest), f"{self._newest}/" if self._newest else ""
        return f"{role}{tail.newest}| {line}" if line else ""
