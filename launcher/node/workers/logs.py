"""Log files per rank on a node, private and complete; a full disk does not stop the job."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from ...common import system
from ...common.records import NamedTuple
from ...specs.environment import from_wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...control.messages import NodeJob

RECORDED = 0
"""The "stream" of the file in which torch's `record` saves an exception."""

_NAMES = {RECORDED: "json", 1: "out", 2: "err"}
_TORCHRUNS = {RECORDED: "error.json", 1: "stdout.log", 2: "stderr.log"}

_FLAGS = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags for opening a log file (open(2)): follow no link, and do not wait at a pipe."""


class RankLog:
    """The log files of one rank, with exactly the bytes of its streams."""

    def __init__(
        self,
        paths: Mapping[int, str],
        create: Callable[[str], int],
        warn: Callable[[str], None],
    ) -> None:
        """Create a file for each stream; `create` returns the file's descriptor.

        Raises:
            OSError: a folder or a file cannot be created.
        """
        self._warn = warn
        self._paths = paths
        self._fds: dict[int, int] = {}
        try:
            for stream, path in paths.items():
                _make_folders(os.path.dirname(path))
                self._fds[stream] = create(path)
        except OSError:
            self.close()
            raise

    def write(self, stream: int, data: bytes | memoryview) -> None:
        """Append; on the first failure warn once and continue without that file."""
        fd = self._fds.get(stream)
        while fd is not None and data:
            try:
                data = data[system.write(fd, data) :]
            except OSError as error:
                system.close(self._fds.pop(stream))
                self._warn(f"{self._paths[stream]}: {error.strerror}; the log ends here")
                return

    def close(self) -> None:
        """Close the files."""
        while self._fds:
            system.close(self._fds.popitem()[1])


class LogFolder(NamedTuple):
    """The place of one job's log files on this node.

    Attributes:
        path: the folder; only this user may read its files.
        layout: the naming of the files: `dsrun`, by rank, or `torchrun`, like torchrun.
        private: whether the folder is in one that all users share, and must belong to this user.
    """

    path: str
    layout: str
    private: bool = False

    def check(self) -> None:
        """Check that the folder can be made; make its parent, unless all users share the parent.

        Raises:
            OSError: the folder cannot be made.
        """
        above = os.path.dirname(self.path)
        if not self.private:
            system.makedirs(above, mode=0o700, exist_ok=True)
        elif not system.access(above, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), above)

    def make(self) -> None:
        """Make the folder, or check that it exists and belongs to this user.

        Raises:
            OSError: the folder cannot be made, or belongs to another user.
        """
        if self.private:
            _make_private(self.path)
        else:
            _make_folders(self.path)

    def files(self, rank: int, local: int, attempt: int) -> dict[int, str]:
        """Return the files of a rank, by stream."""
        if self.layout == "dsrun":
            return {
                stream: os.path.join(self.path, f"rank-{rank:04d}.{name}")
                for stream, name in _NAMES.items()
            }
        folder = os.path.join(self.path, f"attempt_{attempt}", str(local))
        return {stream: os.path.join(folder, name) for stream, name in _TORCHRUNS.items()}


def job_folder(task: NodeJob, workdir: bytes) -> LogFolder:
    """Return the folder of a job's log files, for a job that writes some."""
    output = task.output
    # Named as by torchrun, and made unique: a shared folder may hold the logs of many jobs.
    torchruns = f"{task.workers.run_id or 'none'}_{task.job_id}_{task.host}".replace("/", "_")
    name = to_text(torchruns if output.log_layout == "torchrun" else task.job_id)
    part = to_text(output.log_part)
    if not output.log_private:
        folder = os.path.join(os.fsdecode(workdir), to_text(output.log_dir))
        return LogFolder(os.path.join(folder, name, part).rstrip("/"), output.log_layout)
    folder = os.environ.get("TMPDIR") or "/tmp"
    own = f"dsrun-{name}-{part}" if part else f"dsrun-{name}"
    return LogFolder(os.path.join(folder, own), output.log_layout, private=True)


def to_text(wire: str) -> str:
    """Return wire text as a path for file system functions."""
    return os.fsdecode(from_wire(wire))


def _make_private(path: str) -> None:
    try:
        system.mkdir(path, 0o700)
    except FileExistsError:
        status = system.lstat(path)
        own = stat.S_ISDIR(status.st_mode) and status.st_uid == system.geteuid()
        if not own or status.st_mode & 0o077:
            raise


def own_log(paths: Mapping[int, str], warn: Callable[[str], None], *, again: bool) -> RankLog:
    """Open a rank's files; `again` allows files of an earlier round.

    A saved exception of an earlier round is deleted.

    Raises:
        OSError: a folder or a file cannot be created.
    """
    with suppress(FileNotFoundError):
        system.unlink(paths[RECORDED])
    streams = {stream: path for stream, path in paths.items() if stream != RECORDED}
    return RankLog(streams, _continued if again else _created, warn)


def named_log(paths: Mapping[int, str], warn: Callable[[str], None]) -> RankLog:
    """Open the files that a LogsSpecs has named; each round empties them, as in torch.

    Raises:
        OSError: a folder or a file cannot be created.
    """
    return RankLog(paths, _renewed, warn)


def _make_folders(path: str) -> None:
    """Make a folder and its parents, all private; `makedirs` sets the mode only of the last."""
    if path and not system.isdir(path):
        _make_folders(os.path.dirname(path))
        with suppress(FileExistsError):
            system.mkdir(path, 0o700)


def _created(path: str) -> int:
    return system.open_fd(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)


def _continued(path: str) -> int:
    return system.open_fd(path, _FLAGS | os.O_CREAT | os.O_APPEND, 0o600)


def _renewed(path: str) -> int:
    """Return a new file, or an emptied file of this user from an earlier round."""
    try:
        return _created(path)
    except FileExistsError:
        fd = system.open_fd(path, _FLAGS)
    status = system.fstat(fd)
    # Another user may have hard-linked such a file here (link(2)).
    if stat.S_ISREG(status.st_mode) and status.st_uid == system.geteuid() and status.st_nlink == 1:
        system.truncate(fd, 0)
        return fd
    system.close(fd)
    raise OSError(errno.EEXIST, "exists, and is not a log file of this user", path)
