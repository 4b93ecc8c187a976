"""The files of one run's workers on this node: logs of their output, and their error files."""

from __future__ import annotations

import os
from contextlib import suppress

from ..elastic import agent_environment
from . import error_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...control.messages import Start
    from .logs import RankLog
    from .prepare import NodeSetup


class LogFiles:
    """Opens the files that a round's workers write to, and keeps those in memory open."""

    def __init__(self, setup: NodeSetup, note: Callable[[str], None]) -> None:
        """Open nothing yet; `note` is called for a log that ends early."""
        self._setup = setup
        self._note = note
        self._noted: set[str] = set()
        self._in_memory: list[int] = []

    def open(self, ranks: Iterable[int], start: Start) -> dict[int, RankLog]:
        """Return the log files of these ranks, {} if there are none to write.

        Raises:
            OSError: a log file cannot be created.
        """
        folder = self._setup.folder
        if folder is None and not self._setup.task.logs_specs:
            return {}
        from .logs import named_log, own_log

        if folder is None:
            named = {rank: self._named_files(start, rank - start.first_rank) for rank in ranks}
            return {rank: named_log(paths, self._note_once) for rank, paths in named.items()}
        folder.make()
        files = {r: folder.files(r, r - start.first_rank, start.restarts) for r in ranks}
        again = start.generation > 1
        return {rank: own_log(paths, self._note_once, again=again) for rank, paths in files.items()}

    def error_file(self, start: Start, local: int) -> str:
        """Return where torch's `record` saves a worker's exception, "" if that is not possible."""
        folder = self._setup.folder
        if folder is not None:
            return folder.files(start.first_rank + local, local, start.restarts)[0]
        with suppress(OSError):
            fd, path = error_file.in_memory()
            self._in_memory.append(fd)
            return path
        return ""

    def close(self) -> None:
        """Close the error files of the last round's workers."""
        while self._in_memory:
            os.close(self._in_memory.pop())

    def _note_once(self, text: str) -> None:
        """Report that a log ends, once per reason: it is the same for all ranks on a disk."""
        reason = text.rpartition(": ")[2]
        if reason not in self._noted:
            self._noted.add(reason)
            self._note(text)

    def _named_files(self, start: Start, local: int) -> dict[int, str]:
        folder = os.fsdecode(self._setup.workdir)
        files = agent_environment.log_files(start, local)
        return {stream: os.path.join(folder, path) for stream, path in files.items()}
