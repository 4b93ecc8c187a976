"""Run a host discovery script, which prints HOST or HOST:SLOTS lines as for Horovod."""

from __future__ import annotations

import shlex

from ..common.errors import UsageError, reason
from .hostfile import parse_hostfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..specs.host import Host

PATIENCE = 60.0
"""Seconds that the script may take."""

LATE = f"took longer than {PATIENCE:g} s; stopped"
"""The error for a script that takes longer."""


def argv(command: str) -> list[str]:
    """Split the command into arguments.

    Raises:
        UsageError: a quote is not closed, or the command is empty.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--host_discovery_script {command!r}: {error}") from None
    if not words:
        raise UsageError("--host_discovery_script: expected a command")
    return words


def discover(command: str) -> list[Host]:
    """Run the command once, and return the hosts that it prints.

    Raises:
        UsageError: it cannot be run, fails, takes too long, or prints no hosts.
    """
    import subprocess

    where = f"--host_discovery_script {command}"
    try:
        done = subprocess.run(
            argv(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except OSError as error:
        raise UsageError(f"{where}: {reason(error)}") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"{where}: {LATE}") from None
    if done.returncode:
        raise UsageError(f"{where}: {failure(done.returncode, done.stderr)}")
    return parse_hostfile(done.stdout, where)


def failure(code: int, errors: bytes) -> str:
    """Return how the command failed, in one line with the last line of its error output."""
    last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
    how = f"exited with code {code}" if code > 0 else f"was killed by signal {-code}"
    return f"{how}{f': {last}' if last else ''}"
