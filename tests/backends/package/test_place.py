"""Copies of dsrun on a node: whole or not there, private, and not kept for ever."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dsrun.launcher.backends.package import bootstrap, place

from .copies import DIGEST, FILES, contents, placed

DAY = 86400


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(one.name for one in folder.iterdir())


def test_a_copy_is_private_and_whole(tmp_path: Path) -> None:
    base = tmp_path / "cache" / "dsrun"
    folder = Path(placed(base))
    assert folder == base / "package" / DIGEST
    assert contents(folder) == FILES
    assert bootstrap.intact(str(base), DIGEST) == str(folder)
    for one in (base, base / "package", folder):
        assert stat.S_IMODE(one.stat().st_mode) == 0o700
    assert names(base / "package") == [DIGEST]


def test_a_copy_is_kept_where_the_next_folder_allows_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "linked").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "linked")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    tried = ("no/home/dsrun", "file/dsrun", "link", "open", "good")
    assert placed(*(tmp_path / name for name in tried)) == f"{tmp_path}/good/package/{DIGEST}"
    assert not (tmp_path / "no").exists()
    assert names(tmp_path / "linked") == names(tmp_path / "open") == []


def test_where_no_copy_can_be_kept_every_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(SystemExit) as ended:
        placed(tmp_path / "no/home/dsrun", tmp_path / "link")
    assert str(ended.value) == (
        f"dsrun: no place to store dsrun: {tmp_path}/no/home/dsrun: No such file or directory;"
        f" {tmp_path}/link: not a private folder of this user (mode 0700, no link);"
        " set XDG_CACHE_HOME there"
    )


def test_that_no_folder_is_safe_is_said() -> None:
    with pytest.raises(
        SystemExit, match=r"no place to store dsrun: other users can replace files in "
    ):
        placed()


def test_a_folder_that_others_can_only_read_is_closed(tmp_path: Path) -> None:
    base = tmp_path / "dsrun"
    base.mkdir(mode=0o755)
    placed(base)
    assert stat.S_IMODE(base.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["empty", "cut", "gone", "link", "loop"])
def test_a_damaged_copy_is_replaced(tmp_path: Path, damage: str) -> None:
    folder = Path(placed(tmp_path))
    file = folder / "launcher/node/run/run.py"
    if damage in {"empty", "cut"}:
        os.truncate(file, {"empty": 0, "cut": 2}[damage])
    elif damage == "gone":
        file.unlink()
    else:
        folder.rename(tmp_path / "other")
        folder.symlink_to({"link": tmp_path / "other", "loop": folder}[damage])
    assert bootstrap.intact(str(tmp_path), DIGEST) == ""
    assert placed(tmp_path) == str(folder)
    assert contents(folder) == FILES
    assert names(tmp_path / "package") == [DIGEST]
    if damage == "link":
        assert contents(tmp_path / "other") == FILES, "what a link names is not touched"


def test_of_several_at_once_each_finds_a_whole_copy(tmp_path: Path) -> None:
    script = (
        "from tests.backends.package.copies import *; from pathlib import Path; import sys;"
        "sys.stdin.read(1); print(contents(placed(Path(sys.argv[1]))) == FILES)"
    )
    pipe = subprocess.PIPE
    argv = [sys.executable, "-c", script, str(tmp_path)]
    ran = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
    for one in ran:
        assert one.stdin is not None
        one.stdin.write("x")
        one.stdin.flush()
    assert [one.communicate()[0] for one in ran] == ["True\n"] * 4
    assert names(tmp_path / "package") == [DIGEST]


def test_what_is_no_longer_used_is_removed(tmp_path: Path) -> None:
    ages = {"a": 0, "b": 40, "c": 35, "d": 31, "e": 50, ".new-1": 0.9, ".new-2": 1.1, ".old-f": 9}
    now = time.time()
    for name, days in ages.items():
        (tmp_path / name / "launcher").mkdir(parents=True)
        os.utime(tmp_path / name, (now, now - days * DAY))
    place.clean(str(tmp_path), now)
    assert names(tmp_path) == [".new-1", "a", "c", "d"]


def test_copies_of_the_last_month_are_all_kept(tmp_path: Path) -> None:
    for name in "abcdef":
        (tmp_path / name).mkdir()
    place.clean(str(tmp_path), time.time() + 29 * DAY)
    assert len(names(tmp_path)) == 6
