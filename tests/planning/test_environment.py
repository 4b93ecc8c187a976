"""Files with variables for the nodes, where the home folder is missing or cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.planning.environment import travel

from ..support.local_control import needs_root
from ..support.other_user import WORDS, open_folder, other_user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home folder, which is also the current one."""
    with open_folder() as folder:
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.delenv("DS_ENV_FILE", raising=False)
        monkeypatch.chdir(folder)
        yield folder


@needs_root
def test_a_home_folder_that_cannot_be_read_is_named_and_has_no_effect(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    home.chmod(0o700)
    told: list[str] = []
    with other_user():
        travel(Options(), told.append)
    assert set(told) == {
        f"nothing in the home folder {home} is read: permission denied: {WORDS} may not enter"
        f" {home}: no x permission (drwx------, owned by user root)"
    }


@needs_root
def test_a_file_there_that_cannot_be_read_is_an_error(home: Path) -> None:
    (home / ".dsrun_env").touch(mode=0o600)
    with other_user(), pytest.raises(UsageError, match=f"{WORDS} may not read {home}/.dsrun_env"):
        travel(Options())


@needs_root
def test_without_a_home_folder_only_the_current_one_is_looked_at(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    "".encode("utf-8-sig")  # Python loads this codec, perhaps from root's own folder
    (home / ".dsrun_env").write_text("A_NAME=1\n")
    (home / "~").mkdir()
    (home / "~" / ".dsrun_env").write_text("A_NAME=2\n")
    monkeypatch.setenv("HOME", "")
    with other_user():
        assert travel(Options()).values["A_NAME"] == "1"
    monkeypatch.setenv("DS_ENV_FILE", "~/.dsrun_env")
    with other_user(), pytest.raises(UsageError, match=f"{WORDS} has no home folder"):
        travel(Options())
