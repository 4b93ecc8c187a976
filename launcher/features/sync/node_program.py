"""The program that maintains this node's copy of a folder, beside runs; the runner feeds it.

It reads a request, answers with lines of JSON, and reads the data that it has asked for: the
manifest, then contents. When the copy is ready, it holds the copy until the end of its input: by
then, a child of the node launcher has locked the copy for the run.
"""

from __future__ import annotations

import json
import os
import struct
import sys

from ...common.errors import reason
from ...common.private_folder import cache_root
from ...common.records import NamedTuple
from ...control import frames, messages
from . import node_commit as commit
from .manifest import LARGEST, LINK, ManifestEntry, unpack
from .messages import Blocked, CopyBusy, CopyReady, ManifestAsked, Needed, NoCopy, Shared
from .node_changes import changes
from .node_folder import all_locked, choose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from .messages import Answer
    from .node_folder import SyncFolder
    from .node_tree import Tree

LONGEST = 64 * 1024
"""Bytes of the request."""

NAMED = 20
"""Most files in the way that `Blocked` lists."""


class SyncRequest(NamedTuple):
    """The runner's request.

    Attributes:
        key: tells folders of the same name apart.
        source: the folder's path on the runner's machine, as encoded by `to_wire`.
        probe: the name of a file that is in the folder just now; "" if none could be made.
    """

    name: str
    key: str
    source: str
    probe: str
    digest: str


def main(_arguments: Sequence[str]) -> int:
    """Keep one folder; return the exit code."""
    talk = Conversation(sys.stdin.buffer, sys.stdout.buffer)
    try:
        talk.run(cache_root(os.environ))
    except OSError as error:
        path = error.filename
        where = f"{os.fsdecode(path)}: " if isinstance(path, (str, bytes)) else ""
        talk.tell(NoCopy(f"{where}{reason(error)}"))
        return 1
    except (frames.BadFrame, EOFError) as error:
        talk.tell(NoCopy(str(error)))
        return 1
    return 0


class Conversation:
    """The dialogue between the runner and this program."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink

    def tell(self, answer: Answer) -> None:
        """Send a line."""
        text = json.dumps(answer._asdict(), separators=(",", ":"))
        self._sink.write(text.encode() + b"\n")
        self._sink.flush()

    def run(self, root: str) -> None:
        """Make a copy equal to the source, and hold it until the input ends.

        Raises:
            OSError: a copy cannot be made.
            EOFError: the input has ended early.
            BadFrame: the input is invalid.
        """
        request = self._request()
        if request.probe and os.path.lexists(_probe(request)):
            self.tell(Shared())
            return
        with all_locked(root, request.name, request.key, lambda: self.tell(CopyBusy())):
            folder, number = choose(root, request.name, request.key, request.digest)
            try:
                ready = not folder.claimed or self._update(folder, request.digest)
                folder.share()
            except BaseException:
                folder.close()
                raise
        if ready:
            self.tell(CopyReady(_wire(folder.copy), _wire(folder.lock), number))
            while self._source.read(LONGEST):
                pass
        folder.close()

    def _request(self) -> SyncRequest:
        line = self._source.readline(LONGEST)
        request = messages.unpack(SyncRequest, line)
        names = request.name, request.key, request.probe
        if request.name.startswith(".") or any("/" in one or "\0" in one for one in names):
            raise frames.BadFrame("not a request to sync")
        return request

    def _update(self, folder: SyncFolder, digest: str) -> bool:
        """Update the copy; return whether it is up to date. If not, the runner gets the reason."""
        commit.complete(folder)
        state = folder.state()
        if state.digest == digest:
            wanted: Sequence[ManifestEntry] = [
                ManifestEntry(*one[:5]) for one in sorted(state.placed.values())
            ]
        else:
            wanted = self._manifest(digest)
        tree = commit.made_copy(folder)
        found = changes(state.placed, wanted, tree)
        if found.blocked:
            named = tuple(_named(path, tree) for path in found.blocked[:NAMED])
            self.tell(Blocked(named, len(found.blocked), _wire(folder.copy)))
            return False
        if found.place or found.folders or found.delete or state.digest != digest:
            incoming = commit.Incoming(folder, tree)
            places = {entry.path: at for at, entry in enumerate(wanted)}
            self.tell(Needed(tuple(places[entry.path] for entry in commit.missing(found))))
            received = incoming.take(found, self._source.read)
            commit.commit(folder, digest, found, received)
        return True

    def _manifest(self, digest: str) -> Sequence[ManifestEntry]:
        self.tell(ManifestAsked())
        (size,) = struct.unpack("!I", self._exactly(4))
        if size > LARGEST:
            raise frames.BadFrame("a manifest that is too large")
        found = unpack(self._exactly(size))
        if found.digest != digest:
            raise frames.BadFrame("a different manifest from the one announced")
        return found.entries

    def _exactly(self, size: int) -> bytes:
        data = self._source.read(size)
        if len(data) < size:
            raise EOFError("the runner closed the connection")
        return data


def _probe(request: SyncRequest) -> bytes:
    source = request.source.encode("utf-8", "surrogateescape")
    return os.path.join(source, request.probe.encode())


def _named(path: str, tree: Tree) -> str:
    """Name the obstacle, and say if it is a link, which is not obvious."""
    found = tree.entry(path)
    return f"{path} (a link)" if found is not None and found.kind == LINK else path


def _wire(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "surrogateescape")
