"""A node's answers about its copy of a folder (`--sync`), each a line of JSON. Pure.

Paths are texts as encoded by `environment.to_wire`. The first field of an answer names its shape.
"""

from __future__ import annotations

from ...common.records import NamedTuple
from ...control import frames, messages
from ...specs.field_types import Count, Size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias


class Shared(NamedTuple):
    """The node sees the same folder."""

    shared: bool = True


class CopyBusy(NamedTuple):
    """Another job changes the copy."""

    waiting: bool = True


class ManifestAsked(NamedTuple):
    """The node asks for the manifest."""

    manifest: bool = True


class Needed(NamedTuple):
    """The node asks for contents of files, by their positions in the manifest."""

    need: tuple[int, ...]


class CopyReady(NamedTuple):
    """The copy equals the source: its path, the file that a run there locks, and its number."""

    ready: str
    lock: str
    number: Count


class Blocked(NamedTuple):
    """Files of a run are in the way: some of their paths, their number, and the copy's path."""

    blocked: tuple[str, ...]
    files: Size
    copy: str


class NoCopy(NamedTuple):
    """The reason why there is no copy."""

    failed: str


if TYPE_CHECKING:
    Answer: TypeAlias = Shared | CopyBusy | ManifestAsked | Needed | CopyReady | Blocked | NoCopy

_SHAPES: dict[str, type[Answer]] = {
    shape._fields[0]: shape
    for shape in (Shared, CopyBusy, ManifestAsked, Needed, CopyReady, Blocked, NoCopy)
}


def unpack(line: bytes) -> Answer:
    """Return the answer in a line.

    Raises:
        BadFrame: the line has no answer.
    """
    fields = frames.unpack_json(line)
    shape = _SHAPES.get(next(iter(fields), ""))
    if shape is None:
        raise frames.BadFrame("not an answer about a synced folder")
    return messages.from_fields(shape, fields)
