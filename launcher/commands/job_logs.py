"""`dsrun-job logs JOB`: the newest output of a job, and with --follow what comes later."""

from __future__ import annotations

import os
import struct
import sys

from ..common import entry
from ..common.errors import LostError
from ..common.text import plain
from ..control import frames, local
from ..head.output.labels import Labeller, Sanitizer
from .job_names import PATIENCE, ask, open_place
from .job_view import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..control.local_client import Arrived
    from .job_names import Place

_CHUNK = struct.Struct("!IB")


def show(place: Place, ranks: list[int] | None, *, follow: bool, as_json: bool) -> int:
    """Print what a job has printed, or the last lines of a hold; return the exit code.

    Raises:
        DsrunError: it does not answer.
    """
    if place.kind == local.HOLD:
        words = ask(place, {"do": "logs"}).get("lines")
        for line in words if isinstance(words, list) else []:
            entry.write(f"{plain(str(line))}\n")
        return 0
    with open_place(place) as client:
        number = client.send({"do": "logs", "ranks": ranks, "follow": follow})
        reader: LinesReader = JsonLines() if as_json else TextLines(os.isatty(1))
        for one in client.frames(None if follow else PATIENCE):
            answered = one.kind == frames.ANSWER and one.message.get("id") == number
            if answered and one.message.get("ok") is not True:
                raise LostError(f"dsrun-job: {one.message.get('error')}")
            if answered and not follow:
                break
            reader.take(one)
    reader.end()
    return 0


class LinesReader:
    """Splits what arrives into the lines of each rank, and prints them."""

    def __init__(self) -> None:
        self._hosts: dict[int, str] = {}
        self._labellers: dict[tuple[int, int], Labeller] = {}

    def take(self, one: Arrived) -> None:
        """Print what has arrived; what is not known is left out."""
        if one.kind == frames.CHUNK and len(one.data) > _CHUNK.size:
            rank, stream = _CHUNK.unpack_from(one.data)
            self.feed(rank, stream, one.data[_CHUNK.size :])
        elif one.kind == frames.EVENT and one.message.get("event") == "rank":
            self._move(one.message)
        elif one.kind == frames.EVENT and one.message.get("event") == "skipped":
            sys.stderr.write(f"dsrun-job: {one.message.get('bytes')} bytes left out here\n")

    def _move(self, message: dict[str, object]) -> None:
        """Note where a rank is; its lines have another label from now on."""
        rank, host = message.get("rank"), message.get("host")
        if isinstance(rank, int) and isinstance(host, str):
            self.end(rank)
            self._hosts[rank] = safe(host)

    def feed(self, rank: int, stream: int, data: bytes) -> None:
        """Print the lines that are whole now."""
        labeller = self._labellers.get((rank, stream))
        if labeller is None:
            label = self.label(rank, self._hosts.get(rank, "?"))
            labeller = self._labellers[rank, stream] = Labeller(label)
        self.write(rank, stream, labeller.feed(self.cleaned(rank, stream, data)))

    def end(self, only: int | None = None) -> None:
        """Print lines without a line end, of one rank or of all."""
        for rank, stream in [key for key in self._labellers if only in {None, key[0]}]:
            self.write(rank, stream, self._labellers.pop((rank, stream)).end())

    def label(self, rank: int, host: str) -> bytes:
        """Return what to put before the lines of a rank."""
        return f"{host}:{rank}| ".encode("utf-8", "surrogateescape")

    def cleaned(self, rank: int, stream: int, data: bytes) -> bytes:
        """Return what may be printed of a block."""
        del rank, stream
        return data

    def write(self, rank: int, stream: int, lines: bytes) -> None:
        """Print whole lines, each with its label."""
        raise NotImplementedError


class TextLines(LinesReader):
    """Prints lines as dsrun does: to a terminal only what cannot harm it."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._sanitizers: dict[tuple[int, int], Sanitizer] | None = {} if terminal else None

    def cleaned(self, rank: int, stream: int, data: bytes) -> bytes:
        """Return a block without what could harm a terminal."""
        if self._sanitizers is None:
            return data
        return self._sanitizers.setdefault((rank, stream), Sanitizer()).feed(data)

    def write(self, _rank: int, _stream: int, lines: bytes) -> None:
        """Print lines on standard output."""
        sys.stdout.buffer.write(lines)
        sys.stdout.buffer.flush()


class JsonLines(LinesReader):
    """Prints each line as a JSON object."""

    def label(self, _rank: int, _host: str) -> bytes:
        """Return no label."""
        return b""

    def write(self, rank: int, stream: int, lines: bytes) -> None:
        """Print an object for each line."""
        entry.write("".join(self._objects(rank, stream, lines)))

    def _objects(self, rank: int, stream: int, lines: bytes) -> Iterator[str]:
        import json

        for line in lines.decode("utf-8", "replace").split("\n")[:-1]:
            row = {"host": self._hosts.get(rank, ""), "rank": rank, "stream": stream, "line": line}
            yield f"{json.dumps(row)}\n"
