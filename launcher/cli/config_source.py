"""Reads a configuration file once, and finds out who else could have written it."""

from __future__ import annotations

import os
import stat

from ..common import files
from ..common.errors import UsageError, reason
from ..common.records import NamedTuple
from ..common.text import one_line

ACL = "system.posix_acl_access"
"""The attribute by which a file grants rights to further users (acl(5)), beyond its mode."""

ACCOUNTS = "/etc/passwd"
"""The file of this machine's accounts and their first groups (passwd(5))."""


class ConfigSource(NamedTuple):
    """The contents of a configuration file.

    Attributes:
        shared: whether other members of a group can change the file, or replace it.
    """

    path: str
    data: bytes
    shared: bool


class Unsafe(UsageError):
    """A file that another user, or everybody, could have written."""


def source(path: str) -> ConfigSource:
    """Return a configuration file.

    Raises:
        Unsafe: another user, or everybody, could have written the file.
        UsageError: the file cannot be read.
    """
    from .toml_file import LIMIT

    shared = set[bool]()

    def check(status: os.stat_result) -> None:
        shared.add(is_shared(path, status))

    try:
        for folder in sorted({os.path.dirname(path), os.path.dirname(os.path.realpath(path))}):
            shared.add(is_shared(folder, os.stat(folder)))
        check(os.stat(path))  # the owner counts even if the file cannot be opened
        data = files.read(path, LIMIT, pipes=False, check=check)
    except OSError as error:
        raise UsageError(f"{one_line(path)}: {reason(error)}; {NO_CONFIG}") from None
    return ConfigSource(path, data, any(shared))


NO_CONFIG = "--no_config reads no configuration files"


def own(path: str) -> ConfigSource:
    """Return a configuration file that nobody else can change.

    Raises:
        UsageError: others can, or it cannot be read.
    """
    try:
        found = source(path)
    except Unsafe as error:
        raise UsageError(f"{error}; {NO_CONFIG}") from None
    if found.shared:
        raise UsageError(
            f"{one_line(path)}: other members of its group, or of its folder's group, can change"
            f" it; run chmod g-w on both, or {NO_CONFIG}"
        )
    return found


def is_shared(path: str, status: os.stat_result) -> bool:
    """Return whether other members of a group can change a file or folder.

    Raises:
        Unsafe: everybody can, or it belongs to another user than root.
    """
    if status.st_uid not in {0, os.geteuid()}:
        raise Unsafe(f"{one_line(path)}: belongs to another user (uid {status.st_uid})")
    if status.st_mode & stat.S_IWOTH:
        advice = "" if status.st_mode & stat.S_ISVTX else "; run chmod o-w, if it is yours"
        raise Unsafe(f"{one_line(path)}: everyone can change it{advice}")
    return bool(status.st_mode & stat.S_IWGRP) and not _is_private(path, status.st_gid)


def _is_private(path: str, group: int) -> bool:
    """Return whether a group that may change a file certainly has no other members.

    A primary group not named after its user may have many users, whom a directory service need
    not list.
    """
    import grp
    import pwd

    try:
        found, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid())
        accounts = files.read(ACCOUNTS).decode(errors="replace")
        if ACL in os.listxattr(path):
            return False
    except (KeyError, OSError):
        return False
    rows = [line.split(":") for line in accounts.splitlines()]
    members = {*found.gr_mem, *(row[0] for row in rows if row[3:4] == [str(group)])}
    named = found.gr_name == user.pw_name or group != user.pw_gid
    return named and members <= {user.pw_name}
