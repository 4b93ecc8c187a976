"""The files of one run's workers on this node: output logs and error files."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial

from ...common import system
from . import error_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...control.messages import Start
    from .log_writer import LogWriter
    from .logs import LogFolder, RankLog
    from .prepare import NodeSetup


class LogFiles:
    """Opens the logs of each round, and keeps error files in memory open."""

    def __init__(self, setup: NodeSetup, note: Callable[[str], None]) -> None:
        """Create without files; `note` is called for a log that ends early."""
        self._setup = setup
        self._note = note
        self._noted: set[str] = set()
        self._in_memory: list[int] = []
        self._writers: list[LogWriter] = []

    def open(self, ranks: Iterable[int], start: Start) -> LogWriter | None:
        """Return the writer of the logs of these ranks; None if there are no logs to write.

        Raises:
            OSError: a log file cannot be created.
        """
        folder = self._setup.folder
        if folder is None:
            paths = {rank: self._named_files(start, rank - start.first_rank) for rank in ranks}
        else:
            paths = {r: folder.files(r, r - start.first_rank, start.restarts) for r in ranks}
        if not any(paths.values()) or self.stuck:
            return None
        from .log_writer import LogWriter

        opened = partial(_open, folder, paths, again=start.generation > 1)
        writer = LogWriter(paths, opened, self._note_once, self._setup.task.lease / 2)
        self._writers.append(writer)
        return writer

    @property
    def pids(self) -> set[int]:
        """The pids of log writers."""
        return {one.pid for one in self._writers} - {0}

    @property
    def stuck(self) -> set[int]:
        """The pids of killed writers that still wait for a disk."""
        return {one.pid for one in self._writers if one.given_up} - {0}

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each by pid."""
        for pid in reaped:
            for one in self._writers:
                one.on_reaped(pid)
        self._writers = [one for one in self._writers if one.pid]

    def error_file(self, start: Start, local: int) -> str:
        """Return the path for the exception that torch's `record` saves, or ""."""
        folder = self._setup.folder
        if folder is not None:
            return folder.files(start.first_rank + local, local, start.restarts)[0]
        with suppress(OSError):
            fd, path = error_file.in_memory()
            self._in_memory.append(fd)
            return path
        return ""

    def close(self) -> None:
        """Close the files of the last round."""
        for one in self._writers:
            one.detach()
        while self._in_memory:
            system.close(self._in_memory.pop())

    def _note_once(self, text: str) -> None:
        """Report the end of a log, once per reason: all ranks on a disk share the reason."""
        reason = text.rpartition(": ")[2]
        if reason not in self._noted:
            self._noted.add(reason)
            self._note(text)

    def _named_files(self, start: Start, local: int) -> dict[int, str]:
        if not start.agent_variables:
            return {}
        from ...features.elastic import node_agent_environment as agent_environment

        folder = os.fsdecode(self._setup.workdir)
        files = agent_environment.log_files(start, local)
        paths = {stream: os.path.join(folder, path) for stream, path in files.items()}
        return {stream: path for stream, path in paths.items() if path != os.devnull}


def _open(
    folder: LogFolder | None,
    paths: Mapping[int, Mapping[int, str]],
    warn: Callable[[str], None],
    *,
    again: bool,
) -> dict[int, RankLog]:
    from .logs import named_log, own_log

    if folder is None:
        return {rank: named_log(files, warn) for rank, files in paths.items()}
    folder.make()
    return {rank: own_log(files, warn, again=again) for rank, files in paths.items()}
