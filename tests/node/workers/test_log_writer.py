"""The process that writes logs, and what happens when it gets no further."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.workers.group import WorkerGroup
from dsrun.launcher.node.workers.group_state import StopPolicy
from dsrun.launcher.node.workers.log_writer import ROOM, LogWriter
from dsrun.launcher.node.workers.logs import RankLog

from ...support.clock import Clock
from ...support.limits import HANG
from ...support.specs import python
from ...support.unkillable import held, unkillable
from ...support.written_logs import to_the_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsrun.launcher.node.workers.spawn import Process

pytestmark = pytest.mark.usefixtures("adopting")

PATIENCE = 10.0
BLOCK = b"x" * 65536


class Written:
    """Logs of rank 0 on a clock that the test moves, and what has become of them.

    Attributes:
        room: how often there was room again.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "out"
        self.notes: list[str] = []
        self.room = 0
        self.clock = Clock()
        paths = {0: {1: str(self.path)}}
        self.logs = LogWriter(
            paths, lambda warn: {0: RankLog(paths[0], _created, warn)}, self.notes.append, PATIENCE
        )
        self.logs.serve(self.clock.loop, self._on_room)
        sink = self.logs.sink(0, 1)
        assert sink is not None
        self.write = sink

    def _on_room(self) -> None:
        self.room += 1

    def fill(self) -> int:
        """Write until nothing more should be read from the workers; return how much that was."""
        size = 0
        while not self.logs.full:
            self.write(BLOCK)
            size += len(BLOCK)
        return size

    def until(self, condition: Callable[[], object]) -> None:
        """Serve the loop until a condition holds."""
        last = time.monotonic() + HANG
        while not condition():
            assert time.monotonic() < last, self.notes
            self.clock.go(0.0)


def _created(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    one = Written(tmp_path)
    yield one
    for pid in processes.children():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    one.logs.detach()


def stop(pid: int) -> None:
    """Stop a child, as a disk that does not answer would."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)


def test_a_slow_disk_is_waited_for_and_nothing_is_lost(written: Written) -> None:
    stop(written.logs.pid)
    size = written.fill()
    assert size > ROOM
    written.clock.go(PATIENCE / 2)
    assert (written.room, written.logs.over) == (0, False)
    os.kill(written.logs.pid, signal.SIGCONT)
    written.until(lambda: written.room)
    assert not written.logs.full
    written.clock.go(10 * PATIENCE)  # nothing is waited for now
    written.write(b"the end")
    to_the_end(written.clock.loop, written.logs)
    assert written.path.stat().st_size == size + len(b"the end")
    assert (written.notes, written.room, written.logs.given_up) == ([], 1, False)


def test_a_disk_that_does_not_answer_is_given_up_with_one_line(written: Written) -> None:
    """Its process may wait for the disk for good: nothing waits for that."""
    with unkillable(written.logs.pid):
        stop(written.logs.pid)
        written.fill()
        for _ in range(6):
            written.clock.go(PATIENCE / 4)
        held(written.logs.pid)
        said = f"{written.path}: nothing could be written for 10 s; the logs end here"
        assert written.notes == [said]
        assert (written.room, written.logs.full, written.logs.over) == (1, False, True)
        assert (written.logs.given_up, written.logs.pid) == (True, processes.children()[0])
        written.write(b"dropped")
        ends: list[None] = []
        written.logs.close(lambda: ends.append(None))
        assert ends == [None]
        written.clock.go(10 * PATIENCE)
        assert written.notes == [said]


def test_the_end_waits_for_the_disk_for_a_limited_time(written: Written) -> None:
    stop(written.logs.pid)
    written.write(b"text")
    ends: list[None] = []
    written.logs.close(lambda: ends.append(None))
    written.clock.go(PATIENCE / 2)
    assert (ends, written.notes) == ([], [])
    for _ in range(4):
        written.clock.go(PATIENCE / 4)
    assert (len(ends), len(written.notes)) == (1, 1)


def test_time_for_which_the_whole_job_is_stopped_does_not_count(written: Written) -> None:
    stop(written.logs.pid)
    size = written.fill()
    written.clock.go(100 * PATIENCE)
    assert written.notes == []
    os.kill(written.logs.pid, signal.SIGCONT)
    written.until(lambda: written.room)
    to_the_end(written.clock.loop, written.logs)
    assert written.path.stat().st_size == size


@pytest.mark.parametrize("closing", [False, True])
def test_a_writer_that_was_killed_is_told_of(written: Written, closing: bool) -> None:
    stop(written.logs.pid)
    written.fill()
    ends: list[None] = []
    if closing:
        written.logs.close(lambda: ends.append(None))
    os.kill(written.logs.pid, signal.SIGKILL)
    written.until(lambda: written.notes)
    (note,) = written.notes
    assert note == f"{written.path}: the process that writes here was killed; the logs end here"
    assert (written.logs.over, len(ends)) == (True, closing)


def test_logs_that_are_never_open_are_given_up(tmp_path: Path) -> None:
    def forever(_: object) -> dict[int, RankLog]:
        signal.pause()
        raise AssertionError

    notes: list[str] = []
    logs = LogWriter({0: {1: str(tmp_path / "out")}}, forever, notes.append, 0.1)
    assert notes == [f"{tmp_path}/out: nothing could be written for 0.1 s; the logs end here"]
    assert (logs.over, logs.given_up) == (True, True)
    to_the_end(Loop(), logs)


def test_logs_that_cannot_be_opened_say_why(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(FileExistsError) as raised:
        Written(tmp_path)
    assert raised.value.filename == str(tmp_path / "out")
    assert str(raised.value) == f"[Errno 17] File exists: '{tmp_path}/out'"
    os.wait()


# -- a group of workers with logs -----------------------------------------------------------------

PRINTED = 8 << 20


class Printing:
    """A worker that prints, on the clock of its logs.

    Attributes:
        count: the bytes that were passed on.
        ended: whether the group has told of its end.
    """

    def __init__(self, written: Written) -> None:
        self._written = written
        self.count = 0
        self.ended = False
        pid = written.logs.pid
        self.group = WorkerGroup(
            written.clock.loop, StopPolicy(), self, lambda: {pid}, credit=1 << 30
        )
        self.group.start([python(f"print('x' * {PRINTED - 1})")], written.logs)

    def worker_wrote(self, _rank: int, _stream: int, data: bytes) -> None:
        self.count += len(data)

    def input_taken(self, _size: int) -> None: ...

    def worker_exited(self, _process: Process) -> None: ...

    def orphans_stopped(self, _names: str) -> None: ...

    def group_ended(self, _left: list[int]) -> None:
        self.ended = True

    def until(self, condition: Callable[[], object]) -> None:
        """Serve the loop until a condition holds."""

        def reaped() -> object:
            ended = processes.reap()
            self.group.on_reaped(ended)
            for pid in ended:
                self._written.logs.on_reaped(pid)
            return condition()

        self._written.until(reaped)


def test_workers_go_on_without_logs(written: Written) -> None:
    """They are not read while too much waits for the disk, and all is read once it is given up."""
    with unkillable(written.logs.pid):
        stop(written.logs.pid)
        printing = Printing(written)
        printing.until(lambda: written.logs.full)
        before = printing.count
        written.clock.settle()
        assert before == printing.count < PRINTED
        for _ in range(6):
            written.clock.go(PATIENCE / 4)
        held(written.logs.pid)
        printing.until(lambda: printing.ended)
        assert (printing.count, len(written.notes), printing.group.over) == (PRINTED, 1, True)


def test_a_group_ends_when_its_logs_are_written(written: Written) -> None:
    printing = Printing(written)
    printing.until(lambda: printing.count)
    stop(written.logs.pid)
    written.write(b"!")
    printing.group.stop(signal.SIGKILL, 0.0)
    printing.until(lambda: not printing.group.running())
    written.clock.settle()
    assert (printing.ended, printing.group.over) == (False, False)
    printing.group.stop(signal.SIGTERM, 0.0)
    os.kill(written.logs.pid, signal.SIGCONT)
    printing.until(lambda: printing.ended)
    assert printing.group.over
    assert written.path.stat().st_size >= printing.count
    assert written.notes == []
