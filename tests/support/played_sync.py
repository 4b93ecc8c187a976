"""One sync from end to end, without a node launcher: the real folder, and the node's program."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from dsrun.launcher.features.sync.node_program import Conversation
from dsrun.launcher.features.sync.runner_source import SyncSource
from dsrun.launcher.specs.sync import SyncSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def spec(folder: Path, limit: int = 1 << 30, script: str = "") -> SyncSpec:
    """Return what is synced if the workers run in the folder itself."""
    return SyncSpec(os.path.realpath(folder), limit, {str(folder): ""}, script)


def fill(folder: Path, files: dict[str, str]) -> Path:
    """Write files below a folder; return it."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    folder.mkdir(exist_ok=True)
    return folder


def contents(folder: Path) -> dict[str, str]:
    """Return the files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


class PlayedSync:
    """The runner's end of a program: it answers as soon as it is asked.

    Attributes:
        source: the folder.
        told: what the program has said.
        sent: how many files it has asked for.
        at_end: called when everything is said, while the copy is held.
    """

    def __init__(self, source: SyncSource, probe: str = "") -> None:
        self.told: list[dict[str, Any]] = []
        self.sent = 0
        self.at_end: Callable[[], None] = lambda: None
        self.source = source
        request = {
            "name": source.name,
            "key": "key",
            "source": source.spec.source,
            "probe": probe,
            "digest": source.manifest.digest,
        }
        self._data = bytearray(json.dumps(request).encode() + b"\n")

    @property
    def last(self) -> dict[str, Any]:
        """What was said last."""
        return self.told[-1]

    def write(self, data: bytes) -> int:
        """Take an answer of the program."""
        answer = json.loads(data)
        self.told.append(answer)
        if "manifest" in answer:
            self._data += b"".join(self.source.announced())
        elif "need" in answer:
            self.sent = len(answer["need"])
            self._data += b"".join(self.source.contents(answer["need"]))
        return len(data)

    def flush(self) -> None:
        """Nothing is kept back."""

    def readline(self, limit: int = -1) -> bytes:
        """Give a line."""
        return self.read(min(self._data.index(b"\n") + 1, limit))

    def read(self, size: int = -1) -> bytes:
        """Give some bytes."""
        data = bytes(self._data[:size])
        del self._data[:size]
        if not data:
            self.at_end()
        return data


def sync(folder: Path, cache: Path, probe: str = "") -> PlayedSync:
    """Sync a folder to a node whose cache this is; return what was said."""
    played = PlayedSync(SyncSource(spec(folder), {"XDG_CACHE_HOME": str(cache / "runner")}), probe)
    run_program(played, cache)
    return played


def run_program(played: PlayedSync, cache: Path) -> None:
    """Run the program to its end."""
    stream: Any = played
    Conversation(stream, stream).run(str(cache))
