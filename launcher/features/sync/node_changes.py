"""The changes that a copy needs, and files of a run that are in the way."""

from __future__ import annotations

from ...common.records import NamedTuple
from .manifest import FILE, FOLDER, LINK, ManifestEntry
from .node_folder import PlacedEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .node_tree import Tree, TreeEntry


class Changes(NamedTuple):
    """The changes that turn a copy into the source.

    Attributes:
        delete: entries that sync placed, that are unchanged since, and no longer wanted.
        folders: folders to make, or whose permissions change.
        place: files and links to place.
        keep: entries that stay, as sync left them.
        reuse: an unchanged file of the copy for contents that it already has.
        blocked: paths that a run has written or changed, and that differ in the source.
    """

    delete: list[PlacedEntry]
    folders: list[ManifestEntry]
    place: list[ManifestEntry]
    keep: list[PlacedEntry]
    reuse: dict[str, str]
    blocked: list[str]


def changes(
    placed: Mapping[str, PlacedEntry], wanted: Sequence[ManifestEntry], tree: Tree
) -> Changes:
    """Compare the entries that sync has placed, those wanted, and those present."""
    found = Changes([], [], [], [], {}, [])
    for entry in wanted:
        _compare(found, entry, placed.get(entry.path), tree)
    names = {entry.path for entry in wanted}
    for path, old in placed.items():
        now = tree.entry(path) if path not in names else None
        if now is not None and untouched(old, now, tree):
            found.delete.append(old)
            _note_source(found, old)
    _look_into_replaced(found, tree)
    found.delete.sort(reverse=True)
    return found


def _compare(found: Changes, entry: ManifestEntry, old: PlacedEntry | None, tree: Tree) -> None:
    now = tree.entry(entry.path)
    ours = old is not None and now is not None and untouched(old, now, tree)
    if old is not None and ours:
        _note_source(found, old)
    if now is not None and old is not None and old[:5] == entry and _stays(entry, now):
        found.keep.append(old)
    elif now is None or ours or (now.kind == entry.kind and _equal(entry, now, tree)):
        (found.folders if entry.kind == FOLDER else found.place).append(entry)
        if old is not None and ours and old.kind != entry.kind:
            found.delete.append(old)
    else:
        found.blocked.append(entry.path)


def _stays(entry: ManifestEntry, now: TreeEntry) -> bool:
    """Return whether a run's changes to an entry can stay: only if a folder is still a folder."""
    return entry.kind != FOLDER or now.kind == FOLDER


def _note_source(found: Changes, old: PlacedEntry) -> None:
    if old.kind == FILE:
        found.reuse[old.content] = old.path


def untouched(old: PlacedEntry, now: TreeEntry, tree: Tree) -> bool:
    """Return whether an entry is unchanged since sync; a file that was only touched is."""
    if now.kind != old.kind:
        return False
    if now.kind == LINK:
        return tree.target(old.path) == old.content
    if now.kind == FOLDER or (now.size, now.mtime, now.inode) == (old.size, old.mtime, old.inode):
        return True
    return now.size == old.size and tree.digest(old.path) == old.content


def _equal(entry: ManifestEntry, now: TreeEntry, tree: Tree) -> bool:
    """Return whether a present entry, though not placed by sync, equals the wanted one."""
    if entry.kind == LINK:
        return tree.target(entry.path) == entry.content
    same = now.size == entry.size
    return entry.kind == FOLDER or (same and tree.digest(entry.path) == entry.content)


def _look_into_replaced(found: Changes, tree: Tree) -> None:
    """Block entries that would replace a folder with other remaining contents."""
    gone = {one.path for one in found.delete}
    for entry in found.place:
        if entry.path in gone and _is_folder(found.delete, entry.path):
            found.blocked.extend(path for path in tree.below(entry.path) if path not in gone)


def _is_folder(entries: Iterable[PlacedEntry], path: str) -> bool:
    return any(one.path == path and one.kind == FOLDER for one in entries)
