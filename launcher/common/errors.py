"""The one error family: every message says what is wrong, where, and what to do about it."""

USAGE = 2
"""Exit code: the command line, a hostfile or an environment file is not usable as written."""
NODE_UNUSABLE = 69
"""Exit code: a node cannot be used (no connection, no python, no such folder, too few devices)."""
OUTPUT = 74
"""Exit code: what was asked for on standard output could not be written there (sysexits.h)."""
INTERNAL = 70
"""Exit code: a bug in dsrun."""
LOST = 75
"""Exit code: a node or the runner was lost while the job ran."""
TOO_FEW = 76
"""Exit code: an elastic job had too few nodes for longer than --min_wait."""

SWEPT = "its workers were swept"
"""A guard's word on its node launcher's end: nothing is left there."""


class DsrunError(Exception):
    """A fault that a person can mend: shown as one line (or one line a host), never as a traceback.

    Attributes:
        exit_code: what the process that reports it exits with.
    """

    exit_code = INTERNAL


class UsageError(DsrunError):
    """What the user wrote cannot be meant; nothing was started."""

    exit_code = USAGE


def conflict(*named: str) -> UsageError:
    """Return what to raise where options contradict each other, each shown with its value."""
    return UsageError(f"conflicting options: {' and '.join(named)}; give one of them")


class OutputError(DsrunError):
    """Standard output takes nothing."""

    exit_code = OUTPUT


class NodeError(DsrunError):
    """A node cannot take part; nothing was left running on the others."""

    exit_code = NODE_UNUSABLE


class LostError(DsrunError):
    """The line to a node, or to the runner, ended before the job did."""

    exit_code = LOST


def reason(error: OSError) -> str:
    """Return why a call to the system has failed, in lower case as all our messages are."""
    return (error.strerror or str(error)).lower()
