"""The file of --report_file, whatever lies there before or comes there while the job runs."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import termios
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import output_file
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.common.poll import ready
from dsrun.launcher.head.report import file
from dsrun.launcher.head.report.document import as_text

from ...support.limits import HANG

if TYPE_CHECKING:
    from pathlib import Path

REPORT: dict[str, object] = {"exit_code": 7, "error": "é"}
TEXT = as_text(REPORT)
NOBODY = 65534

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


def refused(path: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        output_file.check("--report_file", str(path))


def test_a_report_is_written_to_a_new_file_an_old_one_and_a_link(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x" * 1000)
    (tmp_path / "link").symlink_to("behind")
    for name in ("new", "old", "link"):
        output_file.check("--report_file", str(tmp_path / name))
        assert (tmp_path / "behind").exists() is False
        file.write(str(tmp_path / name), TEXT)
        assert json.loads((tmp_path / name).read_text()) == REPORT


def test_a_look_beforehand_makes_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    for name in ("new", "old"):
        output_file.check("--report_file", str(tmp_path / name))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("old", "x")]


def test_what_can_be_no_report_file(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
    (tmp_path / "astray").symlink_to("/nowhere/r")
    refused("", "name a file")
    refused(tmp_path, "is a folder; name a file")
    refused("/nowhere/r", "no folder /nowhere; create it, or name a file elsewhere")
    refused(tmp_path / "astray", "/nowhere is not writable")
    refused(tmp_path / "socket", "is a socket; name a file")


@needs_root
@pytest.mark.parametrize("what", ["link", "file in a shared folder"])
def test_what_a_stranger_has_laid_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    path, target = tmp_path / "r", tmp_path / "target"
    target.write_text("kept")
    if what == "link":
        path.symlink_to(target)
    else:
        path.write_text("kept")
        tmp_path.chmod(0o1777)
    os.lchown(path, NOBODY, NOBODY)
    refused(path, "belongs to another user; name another file")
    file.write(str(path), TEXT)
    assert capsys.readouterr().err == f"dsrun: --report_file {path}: belongs to another user\n"
    assert (target.read_text(), path.read_text()) == ("kept", "kept")


@needs_root
def test_a_colleagues_file_in_a_folder_of_ours_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.touch()
    os.chown(path, NOBODY, NOBODY)
    output_file.check("--report_file", str(path))
    file.write(str(path), TEXT)
    assert json.loads(path.read_text()) == REPORT


def test_a_pipe_gets_the_report(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    output_file.check("--report_file", str(path))
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file.write(str(path), TEXT)
    assert json.loads(os.read(reader, 4096)) == REPORT
    os.close(reader)


@pytest.mark.parametrize("reader", ["none", "stalled"])
def test_a_pipe_that_nobody_reads_is_given_up(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    reader: str,
) -> None:
    monkeypatch.setattr(file, "PATIENCE", 0.1)
    path = tmp_path / "fifo"
    os.mkfifo(path)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if reader == "stalled" else -1
    file.write(str(path), as_text({**REPORT, "error": "x" * 200_000}))
    expected = {
        "none": "the pipe has no reader",
        "stalled": "its reader has read nothing for 0.1 s",
    }[reader]
    assert capsys.readouterr().err == f"dsrun: --report_file {path}: {expected}\n"
    with suppress(OSError):
        os.close(fd)


def test_a_stream_that_is_a_file_goes_on_behind_what_is_there(tmp_path: Path) -> None:
    """Opened anew by its name it would be cut off."""
    log = tmp_path / "log"
    child = os.fork()
    if not child:
        fd = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(fd, 2)
        os.write(2, b"before\n")
        output_file.check("--report_file", "/dev/stderr")
        file.write("/dev/stderr", TEXT)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    before, rest = log.read_text().split("\n", 1)
    assert (before, json.loads(rest)) == ("before", REPORT)


def test_another_process_is_named_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert output_file.from_elsewhere("r") == str(tmp_path / "r")
    assert output_file.from_elsewhere("/a/r") == "/a/r"
    assert output_file.from_elsewhere("/dev/stderr") == "/dev/stderr"
    for folder in ("/dev/fd", "/proc/self/fd"):
        assert output_file.from_elsewhere(f"{folder}/5") == f"/proc/{os.getpid()}/fd/5"


def test_a_terminal_or_null_takes_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    keyboard, line = os.openpty()
    for path in ("/dev/null", os.ttyname(line)):
        output_file.check("--report_file", path)
        file.write(path, TEXT)
    assert stat.S_ISCHR(os.fstat(line).st_mode)
    shown = b""
    while b'"exit_code": 7' not in shown:
        assert ready([keyboard], HANG), shown
        shown += os.read(keyboard, 4096)
    os.close(line)
    os.close(keyboard)
    assert capsys.readouterr().err == ""


def test_a_new_file_is_as_open_as_the_user_lets_files_be(tmp_path: Path) -> None:
    for mask, mode in ((0o000, 0o666), (0o027, 0o640)):
        path = tmp_path / f"{mask}"
        before = os.umask(mask)
        try:
            file.write(str(path), TEXT)
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_reader_may_take_its_time(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    report: dict[str, object] = {"error": "x" * 300_000}
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    full = fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
    writer = threading.Thread(target=file.write, args=(str(path), as_text(report)))
    writer.start()
    waiting = bytearray(4)
    while int.from_bytes(waiting, "little") < full and writer.is_alive():
        fcntl.ioctl(fd, termios.FIONREAD, waiting)
    os.set_blocking(fd, True)
    with os.fdopen(fd, "rb") as reader:
        assert json.loads(reader.read()) == report
    writer.join(10)
