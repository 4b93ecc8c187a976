"""Whole syncs: the folder on the runner's machine, and its copy on a node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.features.sync.node_folder import SyncFolder
from dsrun.launcher.features.sync.node_in_use import hold

from ...support.limits import HANG
from ...support.played_sync import PlayedSync, contents, fill, run_program, sync

FILES = {"train.py": "print(1)", "src/a.py": "a", "src/deep/b.py": "b", "empty.txt": ""}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The folder on the runner's machine."""
    return fill(tmp_path / "proj", FILES)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """The cache of a node."""
    return tmp_path / "cache"


def copy_of(cache: Path, suffix: str = "") -> Path:
    return cache / "dsrun" / "sync" / f"proj-key{suffix}" / "proj"


def test_a_folder_is_copied_and_then_only_what_has_changed(here: Path, cache: Path) -> None:
    (here / "none").mkdir()
    (here / "run.sh").write_text("x")
    (here / "run.sh").chmod(0o755)
    (here / "link").symlink_to("src/a.py")
    first = sync(here, cache)
    copy = copy_of(cache)
    assert first.last["ready"] == str(copy)
    assert first.last["number"] == 1
    assert contents(copy) == contents(here)
    assert (copy / "link").readlink() == Path("src/a.py")
    assert (copy / "none").is_dir()
    assert (copy / "run.sh").stat().st_mode & 0o777 == 0o755

    again = sync(here, cache)
    assert [list(one) for one in again.told] == [["ready", "lock", "number"]]

    (here / "src/a.py").write_text("other")
    (here / "run.sh").chmod(0o700)
    (here / "link").unlink()
    (here / "none").rmdir()
    third = sync(here, cache)
    assert third.sent == 1
    assert contents(copy) == contents(here)
    assert (copy / "run.sh").stat().st_mode & 0o777 == 0o700
    assert not (copy / "link").is_symlink()
    assert not (copy / "none").exists()


def test_a_moved_file_does_not_travel(here: Path, cache: Path) -> None:
    sync(here, cache)
    (here / "src/a.py").rename(here / "src/c.py")
    (here / "more").mkdir()
    (here / "more/b.py").write_text("b")
    assert sync(here, cache).sent == 0
    assert contents(copy_of(cache)) == contents(here)


def test_what_a_run_has_written_stays(here: Path, cache: Path) -> None:
    sync(here, cache)
    copy = copy_of(cache)
    fill(copy, {"checkpoint": "10", "src/deep/log": "x", "src/a.py": "edited there"})
    (here / "train.py").write_text("print(2)")
    (here / "src/deep/b.py").unlink()
    (here / "src/deep").rmdir()
    sync(here, cache)
    kept = {"checkpoint": "10", "src/deep/log": "x", "src/a.py": "edited there"}
    assert contents(copy) == {**contents(here), **kept}


def test_what_is_missing_comes_back_but_only_that(here: Path, cache: Path) -> None:
    sync(here, cache)
    (copy_of(cache) / "train.py").unlink()
    again = sync(here, cache)
    assert [next(iter(one)) for one in again.told] == ["need", "ready"]
    assert again.sent == 1
    assert contents(copy_of(cache)) == contents(here)


@pytest.mark.parametrize(
    ("there", "here_now", "named"),
    [
        ({"src/a.py": "edited"}, {"src/a.py": "new"}, ["src/a.py"]),
        ({"new.py": "theirs"}, {"new.py": "ours"}, ["new.py"]),
        ({"dir": "a file"}, {"dir/x": "x"}, ["dir", "dir/x"]),
        ({"dir/x": "x"}, {"dir": "a file"}, ["dir"]),
    ],
)
def test_what_a_run_has_written_is_not_overwritten(
    here: Path, cache: Path, there: dict[str, str], here_now: dict[str, str], named: list[str]
) -> None:
    sync(here, cache)
    fill(copy_of(cache), there)
    before = contents(copy_of(cache))
    fill(here, here_now)
    played = sync(here, cache)
    assert played.last["blocked"][0] == named[0]
    assert set(played.last["blocked"]) <= set(named)
    assert played.last["copy"] == str(copy_of(cache))
    assert contents(copy_of(cache)) == before


def test_a_folder_becomes_a_file_only_if_nothing_else_is_in_it(here: Path, cache: Path) -> None:
    sync(here, cache)
    fill(copy_of(cache), {"src/deep/log": "x"})
    for path in ("src/deep/b.py", "src/a.py"):
        (here / path).unlink()
    (here / "src/deep").rmdir()
    (here / "src").rmdir()
    (here / "src").write_text("a file now")
    assert sync(here, cache).last["blocked"] == ["src/deep/log"]
    (copy_of(cache) / "src/deep/log").unlink()
    assert "ready" in sync(here, cache).last
    assert contents(copy_of(cache)) == contents(here)
    (here / "src").unlink()
    fill(here, {"src/a.py": "again"})
    assert "ready" in sync(here, cache).last
    assert contents(copy_of(cache)) == contents(here)


def test_the_same_file_in_the_way_is_none(here: Path, cache: Path) -> None:
    sync(here, cache)
    fill(copy_of(cache), {"new.py": "same"})
    fill(here, {"new.py": "same"})
    assert "ready" in sync(here, cache).last
    (copy_of(cache) / "train.py").touch()
    fill(here, {"train.py": "print(3)"})
    assert "ready" in sync(here, cache).last, "a file that was only touched is in nobody's way"
    assert contents(copy_of(cache)) == contents(here)


def test_a_link_in_place_of_the_copy_is_refused_as_one(here: Path, cache: Path) -> None:
    sync(here, cache)
    copy = copy_of(cache)
    copy.rename(copy.with_name("elsewhere"))
    copy.symlink_to("elsewhere")
    fill(here, {"src/a.py": "new"})
    with pytest.raises(PermissionError, match=r"is a link, not a folder: '.*/proj'$"):
        sync(here, cache)


def test_links_that_a_run_has_made_are_not_followed(
    here: Path, cache: Path, tmp_path: Path
) -> None:
    sync(here, cache)
    elsewhere = fill(tmp_path / "elsewhere", {"a.py": "a", "deep/b.py": "b"})
    copy = copy_of(cache)
    for path in ("src/a.py", "src/deep/b.py"):
        (copy / path).unlink()
    (copy / "src/deep").rmdir()
    (copy / "src").rmdir()
    (copy / "src").symlink_to(elsewhere)
    fill(here, {"src/a.py": "new"})
    assert sync(here, cache).last["blocked"][0] == "src (a link)"
    for path in ("src/a.py", "src/deep/b.py"):
        (here / path).unlink()
    (here / "src/deep").rmdir()
    (here / "src").rmdir()
    sync(here, cache)
    assert contents(elsewhere) == {"a.py": "a", "deep/b.py": "b"}


def test_a_copy_in_use_stays_as_it_is_and_another_one_is_used(here: Path, cache: Path) -> None:
    first = sync(here, cache)
    old = contents(here)
    fd = hold(first.last["lock"], _digest(first))
    try:
        assert sync(here, cache).last["number"] == 1, "the contents are the same"
        fill(here, {"train.py": "print(2)"})
        second = sync(here, cache)
        assert second.last["number"] == 2
        assert second.last["ready"] == str(copy_of(cache, "~2"))
        assert contents(copy_of(cache)) == old
        assert contents(copy_of(cache, "~2")) == contents(here)
    finally:
        os.close(fd)
    assert sync(here, cache).last["number"] == 1
    assert contents(copy_of(cache)) == contents(here)


def test_the_copy_is_held_until_the_input_ends(here: Path, cache: Path) -> None:
    first = sync(here, cache)
    free: list[bool] = []
    played = PlayedSync(first.source)
    played.at_end = lambda: free.append(SyncFolder(str(copy_of(cache).parent), "proj").claimed)
    run_program(played, cache)
    assert free[-1] is False


def _digest(played: PlayedSync) -> str:
    return played.source.manifest.digest


def test_a_folder_that_is_shared_is_left_alone(here: Path, cache: Path) -> None:
    fill(here, {".dsrun-probe-1": ""})
    played = sync(here, cache, probe=".dsrun-probe-1")
    assert played.told == [{"shared": True}]
    assert not (cache / "dsrun").exists()


@pytest.mark.parametrize("fault", ["link", "open", "file"])
def test_a_folder_that_is_not_this_users_alone_is_not_used(
    here: Path, cache: Path, tmp_path: Path, fault: str
) -> None:
    folder = copy_of(cache).parent
    folder.parent.mkdir(parents=True, mode=0o700)
    folder.parent.parent.chmod(0o700)
    if fault == "link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "theirs")
    elif fault == "open":
        folder.mkdir(mode=0o755)
    else:
        folder.write_text("")
    with pytest.raises(PermissionError, match=r"not a folder|is open to other users"):
        sync(here, cache)
    assert not (tmp_path / "theirs").exists() or not any((tmp_path / "theirs").iterdir())


@pytest.mark.parametrize("name", ["..", ".state", "a/b"])
def test_a_name_that_leads_elsewhere_is_refused(here: Path, cache: Path, name: str) -> None:
    played = sync(here, cache)
    played.source.name = name
    with pytest.raises(frames.BadFrame):
        run_program(PlayedSync(played.source), cache)


def test_what_changes_while_it_is_sent_is_not_used(here: Path, cache: Path) -> None:
    first = sync(here, cache)
    before = contents(here)
    fill(here, {"train.py": "print(2)"})
    played = PlayedSync(type(first.source)(first.source.spec, {}))
    fill(here, {"train.py": "print(3)"})
    with pytest.raises(OSError, match=r"train\.py changed while it was being copied"):
        run_program(played, cache)
    assert contents(copy_of(cache)) == before
    assert "ready" in sync(here, cache).last
    assert contents(copy_of(cache)) == contents(here)


def test_the_process_says_why_it_fails(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    words = [sys.executable, "-m", "dsrun.launcher.node.main", "--program=sync"]
    environ = {**os.environ, "PYTHONPATH": str(root / "tests/import"), "HOME": str(tmp_path)}
    ended = subprocess.run(
        words, input=b"nonsense\n", env=environ, capture_output=True, check=False, timeout=HANG
    )
    assert (ended.returncode, ended.stderr) == (1, b"")
    assert ended.stdout.startswith(b'{"failed":"not JSON')
