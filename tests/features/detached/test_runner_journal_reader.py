"""Reading a journal that grows, and is shortened meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsrun.launcher.features.detached import runner_journal as journal
from dsrun.launcher.features.detached.runner_job_folder import LONGEST, Damage
from dsrun.launcher.features.detached.runner_journal import JournalEntry
from dsrun.launcher.features.detached.runner_journal_reader import JournalReader


def packed(*numbers: int) -> bytes:
    return b"".join(
        journal.pack(JournalEntry(number, 0.0, journal.STDOUT, b"%d" % number, 0, "n0"))
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


@pytest.mark.parametrize(
    "damage",
    [
        *(bytes(100_000), b"\xff" * 100_000, packed(0)),
        journal.pack(JournalEntry(3, float("nan"), journal.STDOUT, b"")),
        journal.pack(JournalEntry(3, float("inf"), journal.STDOUT, b"")),
        journal.pack(JournalEntry(3, 0.0, 77, b"")),
    ],
)
def test_what_is_behind_damage_is_not_read(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "journal"
    path.write_bytes(packed(1, 2) + damage + packed(4))
    assert [one.number for one in JournalReader(str(path)).new()] == [1, 2]


def test_of_a_hole_no_more_is_read_than_an_entry_may_have(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with path.open("wb") as file:
        file.write(packed(1, 2))
        file.truncate(LONGEST)
    reader = JournalReader(str(path))
    assert [one.number for one in reader.new()] == [1, 2]
    with Path("/proc/self/io").open(encoding="ascii") as io:
        before = int(io.read().split()[1])
        assert reader.new() == []
        io.seek(0)
        assert int(io.read().split()[1]) - before < 2 * journal.LONGEST


def test_entries_of_any_size_come_over_several_blocks(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    sizes = [3, 5 << 20, 1, (1 << 20) - 40, journal.MOST_DATA, 0, 7]
    entries = [
        JournalEntry(at, 0.0, journal.STDOUT, bytes(size)) for at, size in enumerate(sizes, 1)
    ]
    path.write_bytes(b"".join(map(journal.pack, entries)))
    reader = JournalReader(str(path))
    assert [len(one.data) for one in reader.new()] == sizes
    assert reader.new() == []


def test_what_is_no_file_of_ours_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    os.mkfifo(path)
    with pytest.raises(Damage, match=r"^journal: is a pipe, not a file$"):
        JournalReader(str(path)).new()
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(Damage, match=r"^journal: is a link, not a file$"):
        JournalReader(str(path)).new()
