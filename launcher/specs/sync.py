"""The folder of the runner's machine that a job copies to its nodes."""

from __future__ import annotations

from ..common.records import NamedTuple


class SyncSpec(NamedTuple):
    """A folder that is synced to the nodes that do not share it.

    Attributes:
        source: the folder on the runner's machine: an absolute path without links.
        limit: the maximum total size of its files in bytes.
        moved: paths of the job that lie in the folder, each with its path relative to that, "" for
            the folder itself; on a node they are below the synced folder.
        script: the relative path of the script, which must be synced; "" if it is elsewhere.
    """

    source: str
    limit: int
    moved: dict[str, str]
    script: str = ""
