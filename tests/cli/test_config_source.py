"""Who else could have written a configuration file."""

from __future__ import annotations

import grp
import os
import pwd
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.config_source import source

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")

UNKNOWN = 4_123_456
"""A group that this machine does not know."""


def shared(tmp_path: Path, group: int, mode: int = 0o664) -> bool:
    """Return whether others of a group are seen to be able to change a file of it."""
    path = tmp_path / "dsrun.toml"
    path.write_text("[default]\n")
    os.chown(path, -1, group)
    path.chmod(mode)
    found = source(str(path))
    assert (found.path, found.data) == (str(path), b"[default]\n")
    return found.shared


def test_a_group_without_another_member_is_private(tmp_path: Path) -> None:
    own = pwd.getpwuid(os.geteuid())
    assert grp.getgrgid(own.pw_gid).gr_name == own.pw_name
    others = [one for one in pwd.getpwall() if one.pw_gid == own.pw_gid and one != own]
    assert shared(tmp_path, own.pw_gid) == bool(others)


def test_the_first_group_of_another_is_not_private(tmp_path: Path) -> None:
    groups = {one.pw_gid for one in pwd.getpwall() if one.pw_uid != os.geteuid()}
    listed = {one.gr_gid for one in grp.getgrall() if not one.gr_mem}
    group = min(groups & listed - {pwd.getpwuid(os.geteuid()).pw_gid})
    assert shared(tmp_path, group)
    assert not shared(tmp_path, group, 0o644)


def test_a_group_that_is_not_known_is_not_private(tmp_path: Path) -> None:
    assert shared(tmp_path, UNKNOWN)
    assert not shared(tmp_path, UNKNOWN, 0o644)


def test_rights_of_further_users_make_a_private_group_count_for_nothing(tmp_path: Path) -> None:
    rights = (1, 6, -1), (2, 6, UNKNOWN), (4, 6, -1), (16, 6, -1), (32, 4, -1)
    entries = [
        b"%c\0%c\0" % (tag, right) + (who & 0xFFFF_FFFF).to_bytes(4, "little")
        for tag, right, who in rights
    ]
    assert not shared(tmp_path, os.getegid())
    path = tmp_path / "dsrun.toml"
    try:
        os.setxattr(path, "system.posix_acl_access", b"\2\0\0\0" + b"".join(entries))
    except OSError:
        pytest.skip("this file system has no such rights")
    assert source(str(path)).shared
