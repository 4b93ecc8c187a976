"""Reading a journal that grows, and is shortened meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.head.detached import journal
from dsrun.launcher.head.detached.journal import Entry
from dsrun.launcher.head.detached.journal_reader import JournalReader

if TYPE_CHECKING:
    from pathlib import Path


def packed(*numbers: int) -> bytes:
    return b"".join(
        journal.pack(Entry(number, 0.0, journal.STDOUT, b"%d" % number, 0, "n0"))
        for number in numbers
    )


def test_each_entry_is_returned_once(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    reader = JournalReader(str(path))
    assert reader.new() == []
    path.write_bytes(packed(1, 2))
    assert [one.number for one in reader.new()] == [1, 2]
    assert reader.new() == []
    with path.open("ab") as file:
        file.write(packed(3)[:-1])
    assert reader.new() == [], "it is not whole yet"
    with path.open("ab") as file:
        file.write(packed(3)[-1:] + packed(4))
    assert [one.number for one in reader.new()] == [3, 4]


def test_a_shorter_journal_has_nothing_new_but_what_is_new(tmp_path: Path) -> None:
    path, fresh = tmp_path / "journal", tmp_path / "new"
    path.write_bytes(packed(*range(1, 10)))
    reader = JournalReader(str(path))
    assert len(reader.new()) == 9
    fresh.write_bytes(packed(8, 9, 10))
    fresh.replace(path)
    assert [one.number for one in reader.new()] == [10]
