"""`dsrun-job logs JOB`: the newest output of a job; with --follow also later output."""

from __future__ import annotations

import os
import sys
import time

from ...common import entry
from ...common.errors import UsageError
from ...common.stderr import tell
from ...common.text import plain
from ...control import frames, local
from ...control.local_client import checked
from ...head.output.labels import Labeller, Sanitizer
from ..detached.runner_job_folder import Damage, JobState
from .command_names import LOOK, PATIENCE, ask, named_in_errors, open_place
from .command_view import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...control.local_client import ArrivedFrame
    from ..detached.runner_job_folder import JobFolder
    from ..detached.runner_journal import JournalEntry
    from .command_names import NamedSocket
    from .json_types import LineJson, MessageJson


def show(place: NamedSocket, ranks: list[int] | None, *, follow: bool, as_json: bool) -> int:
    """Print the output of a job, or the last lines of a hold; return the exit code.

    Raises:
        DsrunError: the job does not answer.
    """
    if place.kind == local.HOLD:
        words = ask(place, {"do": "logs"}).get("lines")
        for line in words if isinstance(words, list) else []:
            entry.write(f"{plain(str(line))}\n")
        return 0
    with open_place(place) as client:
        number = client.send({"do": "logs", "ranks": ranks, "follow": follow})
        readers, role = _Readers(as_json=as_json), place.role
        for one in client.frames(None if follow else PATIENCE):
            answered = one.kind == frames.ANSWER and one.message.get("id") == number
            if answered:
                with named_in_errors(place):
                    checked(one.message)
            if answered and not follow:
                break
            role = str(one.message["role"]) if _names_role(one) else role
            readers.of(role).take(one)
    readers.finish()
    return 0


def _names_role(one: ArrivedFrame) -> bool:
    return one.kind == frames.EVENT and one.message.get("event") == "role"


class _Readers:
    """The splitters of each role's output into lines; "" is the role of a job of one program."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._known: dict[str, LinesReader] = {}

    def of(self, role: str) -> LinesReader:
        """Return the reader of a role."""
        if role not in self._known:
            self._known[role] = LinesReader(self._printer(safe(role)))
        return self._known[role]

    def _printer(self, role: str) -> TextPrinter | JsonPrinter:
        return JsonPrinter(role) if self._as_json else TextPrinter(role, clean=os.isatty(1))

    def finish(self) -> None:
        """Print lines without a line end."""
        for reader in self._known.values():
            reader.finish()


def show_kept(
    folder: JobFolder, role: str, ranks: list[int] | None, *, follow: bool, as_json: bool
) -> int:
    """Print the kept output and messages of a detached job; return the exit code.

    Args:
        folder: the folder of the job.
        role: only this role; "" for all, and the messages of dsrun.
        ranks: only these ranks; None for all, and the messages.
        follow: whether to continue until the job has ended.
        as_json: whether to print JSON.

    Raises:
        UsageError: the job has no such role.
        Damage: the journal cannot be read.
    """
    from ..detached.runner_journal_reader import JournalReader

    names = folder.about.roles
    if role and role not in names:
        has = f"its roles are {', '.join(names)}" if names else "it has one program"
        raise UsageError(f"dsrun-job: --role {role[:40]}: job {folder.about.job_id}: {has}")
    journal = JournalReader(folder.journal)
    readers = _Readers(as_json=as_json)
    while True:
        goes_on = follow and folder.now.state in {JobState.RUNS, JobState.ELSEWHERE}
        try:
            new = journal.new()
        except Damage as damage:
            raise Damage(f"dsrun-job: job {folder.about.job_id}: {damage}") from None
        _print(readers, (one for one in new if role in {"", one.role}), ranks)
        if not new and not goes_on:
            break
        if not new:
            time.sleep(LOOK)
    readers.finish()
    return 0


def _print(readers: _Readers, entries: Iterable[JournalEntry], ranks: list[int] | None) -> None:
    """Print the output of ranks; other entries only if all ranks are requested."""
    from ..detached import runner_journal as journal

    for one in entries:
        reader = readers.of(one.role)
        if one.kind == journal.MESSAGE and ranks is None:
            reader.message(one.data.decode("utf-8", "replace"))
        elif one.kind in journal.OUTPUT and (ranks is None or one.rank in ranks):
            reader.move(one.rank, one.host)
            reader.feed(one.rank, one.kind, one.data)


class LinesReader:
    """Splits arriving data into the lines of each rank."""

    def __init__(self, printer: TextPrinter | JsonPrinter) -> None:
        """Give whole lines to `printer`."""
        self._printer = printer
        self._hosts: dict[int, str] = {}
        self._labellers: dict[tuple[int, int], Labeller] = {}

    def take(self, one: ArrivedFrame) -> None:
        """Print a frame that has arrived; ignore unknown ones."""
        if one.kind == frames.CHUNK:
            self.feed(*frames.unpack_output(one.data))
        elif one.kind == frames.EVENT and one.message.get("event") == "rank":
            rank, host = one.message.get("rank"), one.message.get("host")
            if isinstance(rank, int) and isinstance(host, str):
                self.move(rank, host)
        elif one.kind == frames.EVENT and one.message.get("event") == "skipped":
            tell(f"{one.message.get('bytes')} bytes omitted here", "dsrun-job")

    def move(self, rank: int, host: str) -> None:
        """Record the host of a rank; after a move, the rank's lines get another label."""
        if self._hosts.get(rank) != safe(host):
            self.finish(rank)
            self._hosts[rank] = safe(host)

    def feed(self, rank: int, stream: int, data: bytes) -> None:
        """Print output of a rank."""
        key, host = (rank, stream), self._hosts.get(rank, "?")
        if key not in self._labellers:
            self._labellers[key] = Labeller(self._printer.label(host, rank))
        lines = self._labellers[key].feed(self._printer.cleaned(rank, stream, data))
        self._printer.write(host, rank, stream, lines)

    def message(self, text: str) -> None:
        """Print a message of dsrun's own."""
        self._printer.message(safe(text))

    def finish(self, only: int | None = None) -> None:
        """Print lines without a line end, of one rank or of all."""
        for rank, stream in [key for key in self._labellers if only in {None, key[0]}]:
            last = self._labellers.pop((rank, stream)).finish()
            self._printer.write(self._hosts.get(rank, "?"), rank, stream, last)


class TextPrinter:
    """Prints lines as dsrun does: on a terminal only harmless text."""

    def __init__(self, role: str, *, clean: bool) -> None:
        """Print the lines of a role; with `clean`, drop characters that could harm a terminal."""
        self._role = f"{role}/" if role else ""
        self._clean = clean
        self._sanitizers: dict[tuple[int, int], Sanitizer] = {}

    def label(self, host: str, rank: int) -> bytes:
        """Return the text before the lines of a rank."""
        return f"{self._role}{host}:{rank}| ".encode("utf-8", "surrogateescape")

    def cleaned(self, rank: int, stream: int, data: bytes) -> bytes:
        """Return the printable part of a block."""
        if not self._clean:
            return data
        return self._sanitizers.setdefault((rank, stream), Sanitizer()).feed(data)

    def message(self, text: str) -> None:
        """Print a message of dsrun's own."""
        entry.write(f"dsrun: {text}\n")

    def write(self, _host: str, _rank: int, _stream: int, lines: bytes) -> None:
        """Print whole lines, each with its label."""
        sys.stdout.buffer.write(lines)
        sys.stdout.buffer.flush()


class JsonPrinter:
    """Prints each line as a JSON object."""

    def __init__(self, role: str) -> None:
        """Print the lines of a role; "" for a job of one program."""
        self._role = role

    def label(self, _host: str, _rank: int) -> bytes:
        """Return no label."""
        return b""

    def cleaned(self, _rank: int, _stream: int, data: bytes) -> bytes:
        """Return a block unchanged: JSON escapes special characters."""
        return data

    def message(self, text: str) -> None:
        """Print an object for a message of dsrun's own."""
        self._row({"message": text})

    def write(self, host: str, rank: int, stream: int, lines: bytes) -> None:
        """Print an object for each line."""
        for line in lines.decode("utf-8", "replace").split("\n")[:-1]:
            row: LineJson = {
                "role": self._role,
                "host": host,
                "rank": rank,
                "stream": stream,
                "line": line,
            }
            self._row(row)

    def _row(self, row: LineJson | MessageJson) -> None:
        import json

        from ...common.formats import versioned

        entry.write(f"{json.dumps(versioned('jobs', row))}\n")
