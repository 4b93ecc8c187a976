"""The account of this user: in a container its uid may have no entry in the user database.

`docker run --user 12345` and OpenShift give such uids. `files.home` has the home folder.
"""

from __future__ import annotations

import os
import pwd

from . import files, system
from .errors import UsageError
from .records import NamedTuple

VARIABLES = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""Variables with the name of a user who has no entry, in the order of `getpass.getuser`."""


class Account(NamedTuple):
    """This user.

    Attributes:
        name: the name for a login elsewhere, or "".
        home: an absolute path, or "".
        known: whether the user database has an entry, without which OpenSSH and pdsh do not run.
    """

    name: str
    home: str
    known: bool


def account() -> Account:
    """Return this user's account, from the user database as in OpenSSH, else from variables."""
    try:
        entry = pwd.getpwuid(system.getuid())
    except KeyError:
        named = next(filter(None, map(os.environ.get, VARIABLES)), "")
        return Account(named, files.home(), known=False)
    return Account(entry.pw_name, entry.pw_dir, known=True)


def at_home(option: str, path: str) -> str:
    """Return a path with a leading `~` or `~user` replaced by the home folder, like a shell.

    Raises:
        UsageError: this user has no home folder, or the named user does not exist.
    """
    first, slash, rest = path.partition("/")
    if not first.startswith("~"):
        return path
    home = files.home() if first == "~" else _home_of(option, path, first[1:])
    if not home:
        raise UsageError(f"{option} {path}: {homeless()}; write the whole path, or set HOME")
    return os.path.join(home, rest) if slash else home


def _home_of(option: str, path: str, name: str) -> str:
    try:
        return pwd.getpwnam(name).pw_dir
    except (KeyError, ValueError):  # the last of a NUL
        raise UsageError(
            f"{option} {path}: there is no user {name}; for a folder of that name, write ./{path}"
        ) from None


def homeless() -> str:
    """Return in words that this user has no home folder."""
    return (
        f"{user_words(system.getuid())} has no home folder: neither the environment nor the"
        " user database names one"
    )


def user_words(uid: int) -> str:
    """Return a user by name, from the machine's own file: a server may not answer."""
    name = user_name(uid)
    return f"user {name}" if name else f"uid {uid}"


def user_name(uid: int) -> str:
    """Return the name of a user in the machine's own file, or ""."""
    from .network import lines_of

    rows = [line.split(":") for line in lines_of("/etc/passwd")]
    return next((row[0] for row in rows if row[2:3] == [str(uid)]), "")
