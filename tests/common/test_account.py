"""The account of a user, also of one whose uid has no entry in the user database."""

from __future__ import annotations

import os
import pwd

import pytest

from dsrun.launcher.common import account, files
from dsrun.launcher.common.account import Account, at_home
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.common.private_folder import xdg_folder

from ..support.local_control import needs_root
from ..support.other_user import UID, WORDS, other_user

HOMELESS = f"{WORDS} has no home folder: neither the environment nor the user database names one"


@pytest.fixture(autouse=True)
def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*account.VARIABLES, "HOME"):
        monkeypatch.delenv(name, raising=False)


def test_of_a_user_with_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = pwd.getpwuid(os.getuid())
    monkeypatch.setenv("LOGNAME", "somebody-else")
    assert account.account() == (entry.pw_name, entry.pw_dir, True)


@pytest.mark.parametrize("given", [None, "", "relative/home"])
def test_the_home_folder_of_the_user_database(
    monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    if given is not None:
        monkeypatch.setenv("HOME", given)
    assert files.home() == pwd.getpwuid(os.getuid()).pw_dir


@needs_root
def test_of_a_user_without_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    with other_user():
        assert account.account() == Account("", "", known=False)
        assert files.login_folder() == "/"
        with pytest.raises(FileNotFoundError, match=HOMELESS):
            xdg_folder({}, "XDG_STATE_HOME", ".local/state")
        assert xdg_folder({"XDG_STATE_HOME": "/state"}, "XDG_STATE_HOME", ".local") == "/state"
        monkeypatch.setenv("HOME", "/")
        monkeypatch.setenv("USER", "joe")
        assert account.account() == Account("joe", "/", known=False)
        assert xdg_folder({}, "XDG_STATE_HOME", ".local") == "/.local"


@needs_root
def test_a_path_below_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    with other_user(), pytest.raises(UsageError) as caught:
        at_home("--log_dir", "~/logs")
    assert str(caught.value) == (f"--log_dir ~/logs: {HOMELESS}; write the whole path, or set HOME")
    monkeypatch.setenv("HOME", "/home/me")
    paths = {"~": "/home/me", "~/a/b": "/home/me/a/b", "~root/a": "/root/a", "./~/a": "./~/a"}
    assert {path: at_home("--x", path) for path in paths} == paths
    with pytest.raises(UsageError) as caught:
        at_home("--x", "~nobody-has-this/a")
    assert str(caught.value) == (
        "--x ~nobody-has-this/a: there is no user nobody-has-this; for a folder of that name,"
        " write ./~nobody-has-this/a"
    )


def test_names() -> None:
    assert account.user_words(0) == "user root"
    assert account.user_words(UID) == WORDS
    assert account.user_name(UID) == ""
