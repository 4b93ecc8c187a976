"""Files that the user names: whatever a path leads to, reading and writing end."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common import files
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.common.secret import shared_secret
from dsrun.launcher.features.elastic import plan_batch as batch_config
from dsrun.launcher.features.elastic import runner_host_watch as host_watch
from dsrun.launcher.planning.environment import travel
from dsrun.launcher.planning.inventory import find_hosts
from dsrun.launcher.resources import allocation

from ..support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for writers as long as it takes; a test that has none says how long."""
    monkeypatch.setattr(files, "WRITER_TIMEOUT", HANG)
    monkeypatch.setattr(files, "PIPE_TIMEOUT", HANG)


@contextmanager
def pipe(*blocks: bytes) -> Iterator[str]:
    """The path of a pipe like that of a shell's `<(...)`, into which this is written."""
    read_end, write_end = os.pipe()

    def write() -> None:
        for block in blocks:
            os.write(write_end, block)
        os.close(write_end)

    writer = threading.Thread(target=write)
    writer.start()
    yield f"/dev/fd/{read_end}"
    os.close(read_end)
    writer.join()


def fails(path: object, words: str, *, pipes: bool = True) -> None:
    with pytest.raises(OSError, match=f"(?i){words}"):
        files.read(str(path), pipes=pipes)


@pytest.mark.parametrize("data", [b"", b"n1\n", b"x" * 300_000])
def test_files_and_pipes_are_read_whole(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    assert files.read(str(tmp_path / "file")) == data
    with pipe(data[:7], data[7:]) as path:
        assert files.read(path) == data


def test_a_pipe_with_a_name_waits_for_its_writer(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def write() -> None:
        with fifo.open("wb") as file:
            file.write(b"n1\n")

    writer = threading.Timer(0.1, write)
    writer.start()
    assert files.read(str(fifo)) == b"n1\n"
    writer.join()


def test_a_pipe_without_writer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WRITER_TIMEOUT", 0.1)
    os.mkfifo(tmp_path / "fifo")
    fails(tmp_path / "fifo", "nothing was written to the pipe for 0.1 s")


def test_a_pipe_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its writer is silent or not; one that is merely slow is waited for."""
    monkeypatch.setattr(files, "WRITER_TIMEOUT", 0.05)
    monkeypatch.setattr(files, "PIPE_TIMEOUT", 0.2)
    for first in (b"", b"n1\n"):
        read_end, write_end = os.pipe()
        os.write(write_end, first)
        began = time.monotonic()
        fails(f"/dev/fd/{read_end}", "its writer did not close the pipe within 0.2 s")
        assert time.monotonic() - began >= 0.2
        os.close(read_end)
        os.close(write_end)


def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert files.read(str(tmp_path / "file"), 100)
    with pytest.raises(OSError, match="larger than 99 bytes"):
        files.read(str(tmp_path / "file"), 99)
    with pipe(b"x" * 100) as path, pytest.raises(OSError, match="larger than 99 bytes"):
        files.read(path, 99)


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
    os.mkfifo(tmp_path / "fifo")
    fails(tmp_path / "none", "no such file")
    fails(tmp_path, "is a directory")
    fails(tmp_path / "socket", "no such device or address")
    for device in ("/dev/zero", "/dev/null"):
        fails(device, "is a device, not a file")
    fails(tmp_path / "fifo", "is a pipe, not a file", pipes=False)


def test_what_the_status_forbids_is_not_read(tmp_path: Path) -> None:
    def check(status: os.stat_result) -> None:
        seen.append(status.st_size)
        raise ValueError("not this one")

    seen: list[int] = []
    (tmp_path / "file").write_bytes(b"abc")
    with pytest.raises(ValueError, match="not this one"):
        files.read(str(tmp_path / "file"), check=check)
    assert seen == [3]


READERS: dict[str, Callable[[str], object]] = {
    "--hostfile": lambda path: find_hosts(Options(hostfile=path)),
    "--env_file": lambda path: travel(Options(env_file=(path,))),
    "--token_file": shared_secret,
    "--elastic_config": lambda path: batch_config.read(path, "--elastic_config"),
    "PBS_NODEFILE": lambda path: allocation.find({"PBS_JOBID": "1", "PBS_NODEFILE": path}),
}


@pytest.mark.parametrize("what", READERS)
def test_every_file_that_a_user_names_is_read_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(files, "WRITER_TIMEOUT", 0.01)
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(UsageError, match="nothing was written to the pipe"):
        READERS[what](str(tmp_path / "fifo"))
    private = "other users can read it" if what == "--token_file" else ""
    shared = "writable by all" if what == "--env_file" else private
    with pytest.raises(UsageError, match=shared or "is a device, not a file"):
        READERS[what]("/dev/zero")


def test_a_secret_may_come_from_a_pipe_and_be_asked_for_again() -> None:
    with pipe(b"abc\n") as path:
        assert [shared_secret(path) for _ in range(3)] == ["abc"] * 3


def test_a_pipe_is_no_file_to_watch(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    heard: list[tuple[bytes, str]] = []
    host_watch.of_file(str(tmp_path / "fifo"))(lambda *answer: heard.append(answer))
    assert heard == [(b"", f"{tmp_path}/fifo: is a pipe, not a file")]
    with pytest.raises(UsageError, match="--watch_hostfile: no file "):
        find_hosts(Options(hostfile=str(tmp_path / "fifo"), watch_hostfile=True))
