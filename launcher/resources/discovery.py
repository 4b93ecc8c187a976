"""Run a host discovery script, which prints HOST or HOST:SLOTS lines as for Horovod."""

from __future__ import annotations

import os
import shlex
import signal
import threading
from contextlib import contextmanager, suppress

from ..common import executable
from ..common.errors import UsageError
from ..common.stderr import tell
from .hostfile import parse_hostfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from ..specs.host import Host

PATIENCE = 60.0
"""Seconds that the script may take."""

SLOW = 10.0
"""Seconds without an answer before a message for the user."""

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command before the start of its job."""

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
        UsageError: the command cannot be run, fails, takes too long, or prints no hosts.
    """
    import subprocess

    where = f"--host_discovery_script {command}"
    words = argv(command)
    try:
        with (
            subprocess.Popen(
                words,
                executable=executable.located(words[0]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            ) as process,
            _ending_with_us(process),
        ):
            text, errors = _answer_of(process, where)
    except OSError as error:
        raise UsageError(f"{where}: {executable.refusal(words[0], error)}") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"{where}: {LATE}") from None
    if process.returncode:
        raise UsageError(f"{where}: {failure(process.returncode, errors)}")
    return parse_hostfile(text, where)


def _answer_of(process: subprocess.Popen[bytes], where: str) -> tuple[bytes, bytes]:
    """Return the output of a process, on both streams; kill it and its children on an exception.

    Raises:
        subprocess.TimeoutExpired: the process takes too long.
    """
    from subprocess import TimeoutExpired

    try:
        with suppress(TimeoutExpired):
            return process.communicate(timeout=SLOW)
        tell(f"{where}: no answer for {SLOW:g} s; still waiting")
        return process.communicate(timeout=PATIENCE - SLOW)
    except BaseException:  # KeyboardInterrupt of a program that has called us, too
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


@contextmanager
def _ending_with_us(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a program in its own session before a signal ends this process."""

    def stop(number: int, _frame: object) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    ours = threading.current_thread() is threading.main_thread()
    caught = [one for one in ENDS if ours and signal.getsignal(one) == signal.SIG_DFL]
    for number in caught:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)


def failure(code: int, errors: bytes) -> str:
    """Return a description of the command's failure, with the last line of its error output."""
    last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
    how = f"exited with code {code}" if code > 0 else f"was killed by signal {-code}"
    return f"{how}{f': {last}' if last else ''}"
