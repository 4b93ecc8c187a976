"""Exit codes and exceptions. Every message has the problem, its place, and a remedy."""

from __future__ import annotations

import errno
import os

USAGE = 2
"""Exit code: the command line, a file named there, or something named for a node cannot be used."""
NODE_UNUSABLE = 69
"""Exit code: a node cannot be used (no connection, another version, too few devices)."""
OUTPUT = 74
"""Exit code: standard output could not be written (sysexits.h)."""
INTERNAL = 70
"""Exit code: a bug in dsrun."""
LOST = 75
"""Exit code: a node or the runner was lost while the job ran."""
TOO_FEW = 76
"""Exit code: an elastic job had too few nodes for longer than --min_wait."""
NO_PROGRESS = 77
"""Exit code: dsrun has ended a job that hung or broke a rule on its output."""

SWEPT = "its workers were stopped"
"""Part of a guard's message about the death of its node launcher: no worker is left there."""


class DsrunError(Exception):
    """An error that the user can fix: shown as one line (or one per host), never as a traceback.

    Attributes:
        exit_code: the exit code of the process that reports the error.
    """

    exit_code = INTERNAL


class UsageError(DsrunError):
    """The command line, or a file that it names, is invalid; nothing was started."""

    exit_code = USAGE


class Fault(DsrunError):
    """A bug in dsrun."""

    exit_code = INTERNAL


def conflict(*named: str) -> UsageError:
    """Return the error for options that conflict, each given with its value."""
    return UsageError(f"conflicting options: {' and '.join(named)}; give one of them")


class OutputError(DsrunError):
    """Standard output cannot be written."""

    exit_code = OUTPUT


class NodeError(DsrunError):
    """A node cannot be used; no process is left running on the other nodes."""

    exit_code = NODE_UNUSABLE


class LostError(DsrunError):
    """The connection to a node, or to the runner, ended before the job did."""

    exit_code = LOST


def reason(error: OSError) -> str:
    """Return why a system call failed, in lower case as in all messages.

    If this user lacks a permission, the text says which one, and on which part of the path.
    """
    said = (error.strerror or str(error)).lower()
    if error.errno != errno.EACCES or not isinstance(error.filename, (str, bytes)):
        return said
    from .access import denied

    why = denied(os.fsdecode(error.filename), os.R_OK, os.W_OK)
    return f"{said}: {why}" if why else said


def limit_met(error: Exception) -> str:
    """Return the limit that a system call has reached, and how to raise it, to append to a reason.

    The text is "" for other errors. Source: errno(3).
    """
    from errno import EMFILE, ENFILE

    number = error.errno if isinstance(error, OSError) else None
    if number == EMFILE:
        return f" (the limit is {os.sysconf('SC_OPEN_MAX')}; raise it with ulimit -n)"
    return " (on this machine; raise sysctl fs.file-max)" if number == ENFILE else ""


def is_full(error: OSError) -> bool:
    """Return whether the machine has reached a limit on processes or open files."""
    from errno import EAGAIN, EMFILE, ENFILE, ENOMEM

    return error.errno in {EMFILE, ENFILE, EAGAIN, ENOMEM}


def exhausted(error: BaseException | None) -> str:
    """Return the limit behind an error, if it is one on open files, memory or threads.

    The text is "" for other errors. An error raised while another was being handled may be a
    consequence of that other error. Errors of imports and threads can be told only by their words.
    """
    from errno import EMFILE, ENFILE

    while error is not None:
        for number in (EMFILE, ENFILE):
            known = OSError(number, os.strerror(number))
            said = isinstance(error, ImportError) and os.strerror(number) in str(error)
            if said or (isinstance(error, OSError) and error.errno == number):
                return f"{reason(known)}{limit_met(known)}"
        if why := _out_of_memory(error):
            return why
        error = error.__context__
    return ""


def _out_of_memory(error: BaseException) -> str:
    """Return why a process gets no more memory, or threads; "" for any other error.

    Sources: dl-map-segments.h of glibc, thread_run of CPython, setrlimit(2), proc_pid_limits(5).
    """
    said, threads = str(error), isinstance(error, RuntimeError)
    if not (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, ImportError) and "failed to map segment" in said)
        or (threads and "can't start new thread" in said)
    ):
        return ""
    what = "cannot start a thread" if threads else "cannot allocate memory"
    for name, option in (("Max address space", "-v"), ("Max data size", "-d")):
        if most := _soft_limit(name):
            return f"{what} (the limit is {most >> 10} KiB; raise it with ulimit {option})"
    if threads and (most := _soft_limit("Max processes")):
        return f"{what} (the limit is {most} processes; raise it with ulimit -u)"
    return what


def _soft_limit(name: str) -> int:
    """Return a limit of this process, 0 for none; import nothing, as memory may be short."""
    try:
        with open("/proc/self/limits", "rb", buffering=0) as file:
            lines = file.read().decode().splitlines()
    except (OSError, MemoryError):
        return 0
    value = next((one[len(name) :].split()[0] for one in lines if one.startswith(name)), "")
    return int(value) if value.isdecimal() else 0


def in_words(error: Exception) -> str:
    """Return the failure and its reason, without the number of a system call's error."""
    if not isinstance(error, OSError):
        return str(error)
    return f"{error.filename}: {reason(error)}" if error.filename else reason(error)
