"""Log files of ranks: whose they are, and what may not be in their place."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dsrun.launcher.node.logs import named_log, own_log

NOBODY = 65534

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


def written(path: Path, data: bytes) -> None:
    """Have a round write this into the file that a LogsSpecs has named."""
    log = named_log({1: str(path)}, pytest.fail)
    log.write(1, data)
    log.close()


def test_a_named_file_is_made_private_and_anew_in_every_round(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "log"
    written(path, b"the first round")
    written(path, b"second")
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written(Path(os.devnull), b"nobody keeps it")


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
    for again in (False, True):
        log = own_log(str(tmp_path), 7, pytest.fail, again=again)
        log.write(2, b"x")
        log.close()
    assert (tmp_path / "rank-0007.err").read_bytes() == b"xx"
    with pytest.raises(FileExistsError):
        own_log(str(tmp_path), 7, pytest.fail, again=False)
    (tmp_path / "rank-0008.out").symlink_to("rank-0007.err")
    for again in (False, True):
        with pytest.raises(OSError, match="rank-0008"):
            own_log(str(tmp_path), 8, pytest.fail, again=again)
