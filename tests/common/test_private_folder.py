"""Folders of one user alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsrun.launcher.common.private_folder import cache_root, private_folder, state_folder


def test_where_caches_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_root({"XDG_CACHE_HOME": "/cache"}) == "/cache"
    assert cache_root({"XDG_CACHE_HOME": "relative"}) == "/home/me/.cache"
    assert cache_root({}) == "/home/me/.cache"


def test_it_is_made_and_used_again(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    path = private_folder(root, "a", "b")
    assert path == f"{root}/a/b" == private_folder(root, "a", "b")
    assert [one.stat().st_mode & 0o777 for one in (Path(path).parent, Path(path))] == [0o700] * 2


def test_what_others_could_change_is_refused(tmp_path: Path) -> None:
    private_folder(str(tmp_path), "a")
    (tmp_path / "a").chmod(0o750)
    with pytest.raises(PermissionError, match="is open to other users; run chmod 700"):
        private_folder(str(tmp_path), "a", "b")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "file").touch()
    for name, fault in {"link": "is a link, not a folder", "file": "is not a folder"}.items():
        with pytest.raises(PermissionError, match=fault):
            private_folder(str(tmp_path), name)


def test_where_others_could_replace_it_none_is_made(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(PermissionError, match="can be changed by others; run chmod o-w"):
        private_folder(str(root), "a")
    root.chmod(0o1777)
    assert private_folder(str(root), "a") == f"{root}/a"


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away")
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_nor_in_a_folder_of_another_user(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    os.chown(tmp_path, 1, 1)
    with pytest.raises(PermissionError, match="belongs to another user") as refused:
        private_folder(str(tmp_path), "a")
    assert refused.value.filename == str(tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o700)
    os.chown(tmp_path / "a", 1, 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        private_folder(str(tmp_path), "a")


def state(root: Path) -> str:
    return state_folder({"XDG_STATE_HOME": str(root)}, "dsrun", "jobs")


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o775, 0o2770, 0o1777])
def test_the_folder_for_state_may_be_in_one_of_others(tmp_path: Path, mode: int) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(mode)
    if os.getuid() == 0:
        os.chown(above, 1, 1)
    made = Path(state(above / "state"))
    assert made == above / "state/dsrun/jobs"
    assert [one.stat().st_mode & 0o777 for one in (made, made.parent)] == [0o700] * 2


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o2777])
@pytest.mark.parametrize("place", ["above", "above/between/state"])
def test_but_not_below_one_in_which_everybody_can_replace_it(
    tmp_path: Path, mode: int, place: str
) -> None:
    (tmp_path / "above/between/state").mkdir(parents=True)
    (tmp_path / place).chmod(mode)
    (tmp_path / "link").symlink_to("above/between/state")
    for root in ("above/between/state", "link"):
        with pytest.raises(PermissionError, match="can be changed by others; run chmod o-w") as no:
            state(tmp_path / root)
        assert no.value.filename == str(tmp_path / place)
    assert not (tmp_path / "above/between/state/dsrun").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away")
def test_nor_is_one_of_dsrun_shared(tmp_path: Path) -> None:
    made = Path(state(tmp_path))
    made.parent.chmod(0o750)
    with pytest.raises(PermissionError, match="is open to other users; run chmod 700"):
        state(tmp_path)
    made.parent.chmod(0o700)
    os.chown(made, 1, 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        state(tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away")
@pytest.mark.parametrize("root", [".cache", ".local/state"])
def test_root_makes_none_in_the_home_of_another_user(tmp_path: Path, root: str) -> None:
    """As with `sudo -E`: that user could not use `~/.local` any more."""
    os.chown(tmp_path, 1, 1)
    with pytest.raises(PermissionError, match="belongs to another user") as refused:
        private_folder(str(tmp_path / root), "dsrun")
    assert refused.value.filename == str(tmp_path)
    assert not list(tmp_path.iterdir())
