"""Folders of one user alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dsrun.launcher.common.private_folder import cache_root, private_folder


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
    for name in ("link", "file"):
        with pytest.raises(PermissionError, match="is not a folder"):
            private_folder(str(tmp_path), name)


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o700)
    os.chown(tmp_path / "a", 1, 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        private_folder(str(tmp_path), "a")
