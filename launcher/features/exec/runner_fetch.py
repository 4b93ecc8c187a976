"""The command that `--fetch` runs on each host, and the place of its files."""

from __future__ import annotations

import os

from ...common.errors import UsageError
from .runner_unpack import Unpacker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...common.unexpected import Log
    from .runner_results import HostResult

FAILED = 1
"""The exit code of a host whose files could not all be written here."""

PACK = (
    'c=0; while [ $# -gt 0 ]; do if [ -e "$1/$2" ]; then'
    ' tar -chf - --hard-dereference -C "$1" -- "./$2" || c=$?;'
    ' else printf "no such file or folder: %s\\n" "${1%/}/$2" >&2; c=2; fi; shift 2; done; exit $c'
)
"""Runs on each host: writes an archive for each file; links are followed, as scp does."""


def pack_argv(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the command that writes these files of a host to its standard output.

    Raises:
        UsageError: a path ends without a name.
    """
    folders = [os.path.dirname(path.rstrip("/")) or "." for path in paths]
    pairs = zip(folders, names(paths), strict=True)
    return ("sh", "-c", PACK, "sh", *(word for pair in pairs for word in pair))


def names(paths: Sequence[str]) -> list[str]:
    """Return the local names for these files of a host.

    Raises:
        UsageError: a path ends without a name, or two have equal names.
    """
    trimmed = [path.rstrip("/") for path in paths]
    found = [os.path.basename(path) for path in trimmed]
    for path, name in zip(paths, found, strict=True):
        if name in {"", ".", ".."}:
            raise UsageError(f"--fetch {path}: expected a file or a folder with a name")
        if found.count(name) > 1:
            raise UsageError(f"--fetch: two files would be named {name!r} in the folder of a host")
    return found


class FetchedArchives:
    """The archives of all hosts.

    Attributes:
        receivers: the receiver of each host's standard output.
    """

    def __init__(self, folder: str, names: Sequence[str], hosts: Sequence[str], log: Log) -> None:
        """Prepare to unpack each host's files into a separate folder below `folder`."""
        self._unpackers = {host: Unpacker(os.path.join(folder, host), names, log) for host in hosts}
        self.receivers = {(host, 1): one for host, one in self._unpackers.items()}

    @property
    def files(self) -> int:
        """The number of files written, of all hosts together."""
        return sum(unpacker.files for unpacker in self._unpackers.values())

    def finish(self, results: Mapping[str, HostResult]) -> None:
        """Finish, and record in the results which files could not be written."""
        for host, unpacker in self._unpackers.items():
            problem = unpacker.close()
            if not problem and unpacker.skipped:
                problem = f"{unpacker.skipped!r} is neither a file nor a folder"
            if problem and not results[host].exit_code:
                results[host].fail(problem, FAILED)
