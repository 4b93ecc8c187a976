"""What `--copy` sends, as tar reads it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.exec.runner_archive import blocks, extract_argv, plan

ODD = "it's\n\udcff a b"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of all kinds, as the current one."""
    folder = tmp_path / "here"
    tree = folder / "tree"
    (tree / ("long" * 30) / ("name" * 50)).mkdir(parents=True)
    (tree / ODD).write_bytes(os.urandom(1_000_003))
    (tree / "empty").touch()
    (tree / "link").symlink_to("empty")
    (tree / "run").write_text("x")
    (tree / "run").chmod(0o751)
    os.utime(tree / "run", (1_000_000_000, 1_000_000_000))
    (folder / "-n").write_text("dash")
    (folder / "alias").symlink_to("-n")
    monkeypatch.chdir(folder)
    return folder


def unpacked(paths: list[str], to: str) -> subprocess.CompletedProcess[str]:
    """Copy as a host does it, with the command and the archive that it gets."""
    folder, files = plan(paths, to)
    data = b"".join(blocks(files))
    done = subprocess.run(extract_argv(folder, files), input=data, capture_output=True, check=False)
    return subprocess.CompletedProcess([], done.returncode, "", done.stderr.decode())


def test_the_files_in_it_are_counted(here: Path) -> None:  # noqa: ARG001
    counted: list[None] = []
    list(blocks(plan(["tree", "-n"], "/to")[1], lambda: counted.append(None)))
    assert len(counted) == 4


def test_everything_arrives_as_it_was(here: Path, tmp_path: Path) -> None:
    to = tmp_path / "a" / "new\nfolder"
    assert unpacked(["tree", "-n", "./alias"], str(to)).returncode == 0
    assert (to / "tree" / ODD).read_bytes() == (here / "tree" / ODD).read_bytes()
    assert (to / "tree" / "empty").read_bytes() == b""
    assert (to / "tree" / "link").readlink() == Path("empty")
    assert (to / "tree" / "run").stat().st_mode & 0o777 == 0o751
    assert (to / "tree" / "run").stat().st_mtime == 1_000_000_000
    assert (to / "tree" / ("long" * 30) / ("name" * 50)).is_dir()
    assert (to / "-n").read_text() == "dash"
    assert not (to / "alias").is_symlink(), "what is named is copied itself"
    assert (to / "alias").read_text() == "dash"


@pytest.mark.usefixtures("here")
def test_a_file_is_replaced_by_a_new_one(tmp_path: Path) -> None:
    to = tmp_path / "to"
    to.mkdir()
    (to / "-n").write_text("an older and longer text")
    assert unpacked(["-n"], str(to)).returncode == 0
    assert (to / "-n").read_text() == "dash"


def test_a_file_that_is_the_same_there_stays_untouched(here: Path) -> None:
    before = (here / "-n").stat()
    done = unpacked(["-n"], "")
    assert done.returncode == 0
    assert "is the same file there" in done.stderr
    after = (here / "-n").stat()
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


def test_the_same_path_is_the_default(here: Path) -> None:
    folder, files = plan(["tree"], "")
    assert folder == "/"
    assert files[0].name == str(here / "tree").lstrip("/")
    assert files[0].target == str(here / "tree")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["missing"], "--copy missing: no such file"),
        (["tree/run", "run"], "--copy run: no such file"),
        (["-n", "../here/-n"], "two files would be named '-n' in /to"),
        (["/"], "a whole file system"),
    ],
)
def test_what_cannot_be_copied_is_refused_first(paths: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan(paths, "/to")


def test_a_pipe_is_an_error(here: Path) -> None:
    os.mkfifo(here / "tree" / "pipe")
    _, files = plan(["tree"], "/to")
    with pytest.raises(UsageError, match="pipe: only files, folders and links"):
        list(blocks(files))


def test_a_file_that_becomes_shorter_is_an_error(here: Path) -> None:
    (here / "log").write_bytes(b"x" * 3_000_000)
    archive = blocks(plan(["log"], "/to")[1])
    next(archive), next(archive)
    os.truncate(here / "log", 10)
    with pytest.raises(UsageError, match="became shorter"):
        list(archive)
