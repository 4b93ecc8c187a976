"""The journal of a job on a disk: full and slow ones lose output, and nothing else."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.detached import runner_journal as journal
from dsrun.launcher.features.detached import runner_journal_writer as journal_writer
from dsrun.launcher.features.detached.runner_journal import JournalEntry
from dsrun.launcher.features.detached.runner_journal_writer import JournalWriter

from ...support.limits import HANG, wait_for

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path) -> list[journal.JournalEntry]:
    return journal.entries(path.read_bytes())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def test_entries_are_numbered_in_their_order(path: Path) -> None:
    writer = JournalWriter(str(path), pytest.fail)
    for number in range(1000):
        writer.put(JournalEntry(0, number / 8, journal.STDOUT, b"%d\n" % number, number % 3, "n0"))
    writer.put(JournalEntry(0, 200.0, journal.MESSAGE, b"bye"))
    writer.close(HANG)
    found = written(path)
    assert [one.number for one in found] == list(range(1, 1002))
    assert found[999] == journal.JournalEntry(1000, 999 / 8, journal.STDOUT, b"999\n", 0, "n0")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_journal_that_is_there_is_continued(path: Path) -> None:
    path.write_bytes(journal.pack(JournalEntry(7, 0.0, journal.MESSAGE, b"earlier")))
    writer = JournalWriter(str(path), pytest.fail)
    writer.put(JournalEntry(0, 1.0, journal.MESSAGE, b"later"))
    writer.close(HANG)
    assert [one.data for one in written(path)] == [b"earlier", b"later"]


def test_a_journal_is_bounded_while_the_job_runs_and_shorter_at_its_end(path: Path) -> None:
    writer = JournalWriter(str(path), pytest.fail)
    writer.put(JournalEntry(0, 0.0, journal.STDERR, b"first words", 1, "n1"))
    sizes, block = [], b"x" * (256 << 10)
    for number in range(100):
        writer.put(JournalEntry(0, 1.0, journal.STDOUT, block, 0, "n0"))
        if number % 10 == 9:
            drained(writer)
            sizes.append(path.stat().st_size)
    writer.close(HANG)
    most = journal_writer.LENGTH * journal.limit(2) + journal_writer.AT_ONCE + len(block)
    assert max(sizes) < most
    assert path.stat().st_size < 1.2 * journal.PER_RANK
    found = written(path)
    assert found[0].data == b"first words"
    assert found[-1].number == 101
    assert [one.name for one in path.parent.iterdir()] == ["journal"]


def drained(writer: JournalWriter) -> None:
    """Wait until nothing waits for the disk."""
    while writer._queued:
        os.sched_yield()


def test_without_room_the_output_is_lost_and_counted(tmp_path: Path) -> None:
    """A folder that is not there stands for a disk that is full: both fail as a whole."""
    folder, told = tmp_path / "later", []
    failed = threading.Event()

    def tell(why: str) -> None:
        told.append(why)
        failed.set()

    writer = JournalWriter(str(folder / "journal"), tell)
    writer.put(JournalEntry(0, 1.0, journal.STDOUT, b"12345", 0, "n0"))
    assert failed.wait(HANG)
    writer.put(JournalEntry(0, 2.0, journal.STDOUT, b"678", 0, "n0"))
    drained(writer)
    folder.mkdir()
    writer.close(HANG)
    assert told == ["no such file or directory"]
    (gap,) = written(folder / "journal")
    assert (gap.kind, gap.data) == (
        journal.MESSAGE,
        b"8 bytes are missing here: no such file or directory",
    )


def test_output_for_a_file_that_was_removed_is_lost_and_counted(path: Path) -> None:
    failed = threading.Event()
    path = path.parent / "job" / "journal"
    path.parent.mkdir()
    writer = JournalWriter(str(path), lambda _why: failed.set())
    writer.put(JournalEntry(0, 1.0, journal.STDOUT, b"12345", 0, "n0"))
    wait_for(path.exists, "the first entry")
    shutil.rmtree(path.parent)
    writer.put(JournalEntry(0, 2.0, journal.STDOUT, b"678", 0, "n0"))
    assert failed.wait(HANG)
    path.parent.mkdir()
    writer.close(HANG)
    (gap,) = written(path)
    assert gap.data == b"3 bytes are missing here: no such file or directory"


def test_half_a_write_leaves_no_half_entry(tmp_path: Path) -> None:
    """A limit on the size of files ends a write in its middle, as a full disk does."""
    path = tmp_path / "journal"
    code = f"""
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
from dsrun.launcher.features.detached import runner_journal as journal
from dsrun.launcher.features.detached.runner_journal import JournalEntry
from dsrun.launcher.features.detached.runner_journal_writer import JournalWriter
writer = JournalWriter({str(path)!r}, lambda why: print(why, flush=True))
writer.put(JournalEntry(0, 1.0, journal.STDOUT, b"fits", 0, "n0"))
while writer._queued or not writer._number: pass
writer.put(JournalEntry(0, 2.0, journal.STDOUT, b"x" * 5000, 0, "n0"))
writer.close({HANG})
"""
    ran = python(code)
    assert ran == "file too large\n"
    found = written(path)
    assert [one.data for one in found] == [
        b"fits",
        b"5000 bytes are missing here: file too large",
    ]


def python(code: str) -> str:
    import subprocess
    import sys

    from ...support.checkout import IMPORTABLE

    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **IMPORTABLE},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_disk_that_hangs_holds_up_nobody(tmp_path: Path) -> None:
    """A pipe that nobody reads stands for it: what waits is bounded, and the end does not wait."""
    path = tmp_path / "journal"
    os.mkfifo(path)
    writer = JournalWriter(str(path), pytest.fail)
    block = b"x" * (1 << 20)
    for _ in range(40):
        writer.put(JournalEntry(0, 1.0, journal.STDOUT, block, 0, "n0"))
    assert writer._queued < journal_writer.MOST_QUEUED + 2 * len(block)
    writer.close(0.0)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # let the thread go on
    path.unlink()
    os.set_blocking(reader, True)
    while os.read(reader, 1 << 20):
        pass
    os.close(reader)
    writer.close(HANG)
