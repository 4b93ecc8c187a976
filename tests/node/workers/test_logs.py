"""Log files of ranks: their owner, and what may not be in their place."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from dsrun.launcher.node.workers.logs import RECORDED, LogFolder, job_folder, named_log, own_log
from dsrun.launcher.specs.program import Program

from ...support.leaks import open_files
from ...support.tasks import task_of

NOBODY = 65534

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


def written(path: Path, data: bytes) -> None:
    """Write this in a round into the file that a LogsSpecs has named."""
    before = open_files()
    log = named_log({1: str(path)}, pytest.fail)
    log.write(1, data)
    log.close()
    assert open_files() == before


def test_a_named_file_is_made_private_and_anew_in_every_round(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "log"
    written(path, b"the first round")
    written(path, b"second")
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "what",
    [
        "link",
        "broken link",
        "second name",
        "pipe",
        "folder",
        pytest.param("theirs", marks=needs_root),
    ],
)
def test_what_is_in_the_place_of_a_named_file_is_left_alone(tmp_path: Path, what: str) -> None:
    path, kept = tmp_path / "log", tmp_path / "kept"
    kept.write_text("kept")
    if what == "link":
        path.symlink_to(kept)
    elif what == "broken link":
        path.symlink_to(tmp_path / "none")
    elif what == "second name":
        path.hardlink_to(kept)
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        path.write_text("kept")
        os.chown(path, NOBODY, NOBODY)
    for stream in (1, 2):
        with pytest.raises(OSError, match="log"):
            named_log({stream: str(path)}, pytest.fail)
    assert kept.read_text() == "kept"
    assert not (tmp_path / "none").exists()
    if what == "theirs":
        assert path.read_text() == "kept"


def test_an_own_file_must_be_new_but_in_a_later_round(tmp_path: Path) -> None:
    folder = LogFolder(str(tmp_path), "dsrun")
    files = folder.files(7, 1, 0)
    for again in (False, True):
        (tmp_path / "rank-0007.json").write_text("of an earlier round")
        log = own_log(files, pytest.fail, again=again)
        log.write(2, b"x")
        log.close()
        assert not (tmp_path / "rank-0007.json").exists()
    assert (tmp_path / "rank-0007.err").read_bytes() == b"xx"
    with pytest.raises(FileExistsError):
        own_log(files, pytest.fail, again=False)
    (tmp_path / "rank-0008.out").symlink_to("rank-0007.err")
    for again in (False, True):
        with pytest.raises(OSError, match="rank-0008"):
            own_log(folder.files(8, 2, 0), pytest.fail, again=again)


PLAIN: dict[str, Any] = {
    "dsrun": "1",
    "job_id": "j",
    "host": "h",
    "program": Program("x"),
    "workdir": "/",
    "env": {},
    "slots": None,
    "port": None,
}


def test_torchruns_names(tmp_path: Path) -> None:
    """Where scripts look, as with `glob.glob("logs/my_*/attempt_0/*/stderr.log")`."""
    task = task_of(**PLAIN, log_dir="logs", log_layout="torchrun", run_id="my/../id")
    folder = job_folder(task, os.fsencode(tmp_path))
    folder.check()
    folder.make()
    files = folder.files(7, 3, 2)
    log = own_log(files, pytest.fail, again=False)
    log.write(1, b"x")
    log.close()
    (made,) = (tmp_path / "logs").iterdir()
    assert made.name == "my_.._id_j_h"
    assert Path(files[RECORDED]) == made / "attempt_2" / "3" / "error.json"
    found = {path.relative_to(made): path for path in made.rglob("*.log")}
    assert set(map(str, found)) == {"attempt_2/3/stdout.log", "attempt_2/3/stderr.log"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in found.values()} == {0o600}
    folders = [made, *(path for path in made.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


@pytest.mark.parametrize(
    ("output", "path"),
    [
        ({"log_dir": "logs"}, "/work/logs/j/trainer"),
        ({"log_private": True}, "/tmp/dsrun-j-trainer"),
    ],
)
def test_a_part_of_a_job_has_a_folder_of_its_own(
    output: dict[str, Any], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    task = task_of(**PLAIN, log_part="trainer", **output)
    assert job_folder(task, b"/work").path == path


@pytest.mark.parametrize("what", ["", "ours", "link", "open", "file"])
def test_a_folder_among_temporary_files_is_this_users_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    folder = job_folder(task_of(**PLAIN, log_private=True), b"/")
    path = tmp_path / "dsrun-j"
    assert folder.path == str(path)
    folder.check()
    assert not path.exists()  # other nodes may yet be unusable
    if what == "link":
        path.symlink_to(tmp_path)
    elif what == "file":
        path.touch(0o600)
    elif what:
        path.mkdir(0o700 if what == "ours" else 0o755)
    if what in {"", "ours"}:
        folder.make()
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    else:
        with pytest.raises(FileExistsError):
            folder.make()
