"""Keeps the copy of a folder on one node: the runner's half of the dialogue."""

from __future__ import annotations

import json
import os

from ...common.errors import reason
from ...common.records import NamedTuple
from ...common.text import plain
from ...common.unexpected import QUOTED
from ...common.wording import counted
from ...control import frames
from ...head.fleet.commands import (
    WINDOW,
    CommandEnded,
    CommandInputTaken,
    CommandOutput,
    CommandSpec,
)
from ...specs.environment import to_wire
from .manifest import FILE
from .messages import Blocked, CopyReady, ManifestAsked, Needed, NoCopy, Shared, unpack
from .runner_scan import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...head.fleet.commands import CommandEvent, FleetCommands
    from ...head.fleet.node_connection import NodeConnection
    from .messages import Answer
    from .runner_shared import SharedProbe
    from .runner_source import SyncSource

    Outcome = Callable[["Copy | str"], None]

KEPT = 2048
"""Bytes of its errors that are kept."""

LINE = 1 << 20
"""Bytes of an answer, in addition to those for each entry of the manifest."""

NAMED = 5
"""Most files in the way to name."""


class Copy(NamedTuple):
    """A node's copy.

    Attributes:
        folder: its path as written by the node; "" for the shared folder itself.
        lock: the file that a run there locks.
        number: the number of the copy: 2 and more if a run uses the others with other contents.
    """

    folder: str
    lock: str = ""
    number: int = 1


class NodeSync:
    """One node, from its request to the outcome."""

    def __init__(
        self,
        source: SyncSource,
        probe: SharedProbe,
        on_outcome: Outcome,
        wanted: Callable[[], bool],
        log: Callable[[str], None],
    ) -> None:
        """Prepare the sync of one node.

        Args:
            source: the folder.
            probe: includes this sync until the node has answered.
            on_outcome: called once with the copy, or the reason for none; not if the node is lost.
            wanted: returns whether a copy is still wanted.
            log: prints a message about data sent.
        """
        self._source = source
        self._probe = probe
        self._on_outcome: Outcome | None = on_outcome
        self._wanted = wanted
        self._log = log
        self._answered = False
        self._line, self._errors = bytearray(), bytearray()
        self._pieces: Iterator[bytes] = iter(())

    def start(self, commands: FleetCommands, node: NodeConnection) -> None:
        """Start the dialogue with a connected node."""
        source = self._source
        request = {
            "name": source.name,
            "key": source.key,
            "source": to_wire(source.spec.source),
            "probe": self._probe.start(),
            "digest": source.manifest.digest,
        }
        spec = CommandSpec((), stdin=True, program="sync")
        self._running = commands.run([node], spec, self._on_event)
        self._running.feed(json.dumps(request).encode() + b"\n")

    def _on_event(self, event: CommandEvent) -> None:
        if self._on_outcome is not None and not self._wanted():
            self._on_outcome = None
            self._running.stop()
        match event:
            case CommandOutput(_, 1, data):
                self._running.took(event)
                self._read(data)
            case CommandOutput(_, _, data):
                self._running.took(event)
                self._errors = (self._errors + data)[-KEPT:]
            case CommandInputTaken():
                self._pump()
            case CommandEnded(_, code, hint):
                self._close_probe()
                last = self._errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
                self._finish(f"--sync: it exited with code {code} ({last or hint or 'no message'})")
            case _:
                self._close_probe()

    # -- messages of the node ---------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        self._close_probe()
        *lines, rest = data.split(b"\n")
        try:
            for line in lines:
                self._on_answer(unpack(bytes(self._line) + line))
                self._line.clear()
            self._line += rest
            if len(self._line) > LINE + 16 * len(self._source.manifest.entries):
                raise frames.BadFrame("a line that is too long")
        except frames.BadFrame as error:
            self._line.clear()
            why = plain(str(error))[:QUOTED]
            self._finish(f"--sync: the node sent an invalid answer: {why}")
            self._running.stop()

    def _on_answer(self, answer: Answer) -> None:
        match answer:
            case Shared():
                self._finish(Copy(""))
            case ManifestAsked():
                self._send(self._source.announced())
            case Needed(positions):
                self._give(positions)
            case CopyReady(folder, lock, number):
                self._finish(Copy(folder, lock, number))
                self._running.feed(b"")
            case Blocked(paths, count, copy):
                self._finish(_blocked(paths[:NAMED], count, copy))
            case NoCopy(why):
                self._finish(f"--sync: {plain(why)}")

    def _give(self, positions: Sequence[int]) -> None:
        """Send the contents that the node lacks.

        Raises:
            BadFrame: the node requests a file that is not in the manifest.
        """
        entries = self._source.manifest.entries
        for at in positions:
            if not 0 <= at < len(entries) or entries[at].kind != FILE:
                raise frames.BadFrame(f"there is no file {at} to send")
        size = self._source.size(positions)
        self._log(f"copying {counted(len(positions), 'file')}, {shown(size)} (--sync)")
        self._send(self._source.contents(positions))

    def _send(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._pump()

    def _pump(self) -> None:
        """Send as much as there is room for."""
        try:
            while self._running.unread < WINDOW and (piece := next(self._pieces, b"")):
                self._running.feed(piece)
        except OSError as error:
            path = error.filename
            self._finish(f"--sync: {os.fsdecode(path)}: {reason(error)}")
            self._running.stop()

    # -- the end ----------------------------------------------------------------------------

    def _close_probe(self) -> None:
        if not self._answered:
            self._answered = True
            self._probe.close()

    def _finish(self, outcome: Copy | str) -> None:
        tell, self._on_outcome = self._on_outcome, None
        if tell is not None:
            tell(outcome)


def _blocked(paths: Sequence[str], count: int, copy: str) -> str:
    more = f" and {count - len(paths)} more" if count > len(paths) else ""
    names = plain(", ".join(paths)) + more
    differ = "differs" if count == 1 else "differ"
    return (
        f"--sync: a run wrote or changed {counted(count, 'file')} that now {differ} in this folder:"
        f" {names}; move them out of {plain(copy)} there, or name them in .dsrunignore"
    )
