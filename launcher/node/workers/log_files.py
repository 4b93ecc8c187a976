"""The files of one run's workers on this node: logs of their output, and of their exceptions."""

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
    """Opens what a round's workers write to, and holds what has no name in any folder."""

    def __init__(self, setup: NodeSetup, note: Callable[[str], None]) -> None:
        """Open nothing yet; `note` takes a line on every log that ends early."""
        self._setup = setup
        self._note = note
        self._noted: set[str] = set()
        self._in_memory: list[int] = []

    def open(self, ranks: Iterable[int], start: Start) -> dict[int, RankLog]:
        """Return the log files of these ranks, {} where none are asked for.

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
        """Return where `record` of torch keeps a worker's exception, "" where that cannot be."""
        folder = self._setup.folder
        if folder is not None:
            return folder.files(start.first_rank + local, local, start.restarts)[0]
        with suppress(OSError):
            fd, path = error_file.in_memory()
            self._in_memory.append(fd)
            return path
        return ""

    def close(self) -> None:
        """Let go of the exceptions of the last round's workers."""
        while self._in_memory:
            os.close(self._in_memory.pop())

    def _note_once(self, text: str) -> None:
        """Note that a log ends, for the same reason on one disk in every round and rank."""
        reason = text.rpartition(": ")[2]
        if reason not in self._noted:
            self._noted.add(reason)
            self._note(text)

    def _named_files(self, start: Start, local: int) -> dict[int, str]:
        folder = os.fsdecode(self._setup.workdir)
        files = agent_environment.log_files(start, local)
        return {stream: os.path.join(folder, path) for stream, path in files.items()}
