"""Checks of files that the user names for output: whether they are writable, and who owns them."""

from __future__ import annotations

import os
import stat

from . import files, system
from .errors import UsageError, reason

STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
"""Streams that are already open: opening them again would truncate a file behind them."""

OWN_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")
"""Folders in which every process finds its own descriptors (proc(5))."""


def check(option: str, path: str) -> None:
    """Check that a file can be written, as far as that can be known in advance.

    Raises:
        UsageError: the file cannot be written.
    """
    if path in STREAMS:
        return
    problem = _problem(path)
    if problem:
        raise UsageError(f"{f'{option} {path}'.rstrip()}: {problem}")


def check_replaceable(option: str, path: str) -> None:
    """Check that a file is empty, or an output of dsrun, which a new one may replace.

    Raises:
        UsageError: the file has other content, or cannot be read.
    """
    if path in STREAMS or not os.path.isfile(path) or not os.path.getsize(path):
        return
    from .own_output import is_own

    if not is_own(path):
        raise UsageError(
            f"{option} {path}: has content that dsrun did not write; name another file, or"
            " remove this one"
        )


def is_same(one: str, other: str) -> bool:
    """Return whether two paths lead, or would lead, to one file; devices do not count."""
    try:
        if stat.S_ISCHR(os.stat(one).st_mode):
            return False
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


FORMS = {
    "report_file": (
        "JSON",
        (".json", ".html", ".htm"),
        "; a name ending in .html gets a picture",
    ),
    "metrics_file": ("the text format of Prometheus", (".prom", ".txt", ".metrics"), ""),
    "debug_file": ("JSON", (".json",), ""),
    "html": ("HTML", (".html", ".htm"), ""),
    "svg": ("SVG", (".svg",), ""),
}
"""For each option: the format of its file, usual endings, and a note on other endings."""


def note(option: str, path: str) -> str:
    """Return a note if the ending of a file does not fit the format written to it; else ""."""
    form, endings, other = FORMS[option]
    ending = os.path.splitext(path)[1]
    special = os.path.exists(path) and not os.path.isfile(path)
    if special or not ending[1:].isalpha() or ending in endings:
        return ""
    return f"--{option} {path}: {form} is written there{other}"


def is_page(path: str | None) -> bool:
    """Return whether a report in this file is a picture of the job, in HTML, rather than JSON."""
    return path is not None and path.endswith((".html", ".htm"))


def has_content(path: str) -> bool:
    """Return whether a path is a regular file with content, which writing would destroy."""
    if path in STREAMS or os.path.dirname(path) in OWN_DESCRIPTORS:
        return False
    try:
        status = system.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def from_elsewhere(path: str) -> str:
    """Return the path by which another process of this machine can write to a file.

    `/dev/fd/N` and `/proc/self/fd/N` mean descriptors of the process that opens them. Those in
    STREAMS are not changed.
    """
    folder, name = os.path.split(path)
    if folder in OWN_DESCRIPTORS:
        return f"/proc/{system.getpid()}/fd/{name}"
    return path if path in STREAMS else os.path.abspath(path)


def _problem(path: str) -> str:
    folder = folder_of(path)
    if not path or system.isdir(path):
        return "is a folder; name a file" if path else "the name is empty; name a file"
    if not system.isdir(folder):
        return _no_folder(folder)
    try:
        if is_anothers(system.lstat(path), folder):
            return "belongs to another user; name another file"
        mode = system.stat(path).st_mode
    except OSError as error:
        above = os.path.dirname(os.path.realpath(path))
        absent = isinstance(error, FileNotFoundError)  # else too long a name, or a loop of links
        return _denied(above, os.W_OK | os.X_OK) if absent else reason(error)
    if stat.S_ISSOCK(mode) or stat.S_ISBLK(mode):
        return f"is {files.kind(mode)}; name a file"
    return _denied(path, os.W_OK)


def _no_folder(folder: str) -> str:
    from .access import absence

    words = f"no folder {folder}; create it, or name a file elsewhere"
    return absence(folder, words) or words


def _denied(path: str, rights: int) -> str:
    if system.access(path, rights):
        return ""
    from .access import denied

    return denied(path, os.W_OK) or f"{path} is not writable"


def folder_of(path: str) -> str:
    """Return the folder of a file, as an absolute path."""
    return os.path.dirname(os.path.abspath(path))


def is_anothers(status: os.stat_result, folder: str) -> bool:
    """Return whether another user (but root) placed this link, or this file in a sticky folder.

    This is the rule of protected_symlinks and protected_regular (proc_sys_fs(5)), which not all
    hosts enable.
    """
    shared = bool(system.stat(folder).st_mode & stat.S_ISVTX)
    foreign = status.st_uid not in {0, system.getuid()}
    return foreign and (shared or stat.S_ISLNK(status.st_mode))
