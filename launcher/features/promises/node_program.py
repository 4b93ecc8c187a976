"""The node's half of `dsrun-check --promises`: a folder for the stand-ins, and looks at processes.

The program makes the folder, and prints a line. It answers each line of its input, a `LookAsk` in
JSON, with a `Look`. At the end of its input it removes the folder. It signals nothing, except the
processes of a job that has broken its promise to leave none, if it is asked to.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
import time

from ...common.errors import UsageError, reason
from ...common.network import lines_of
from ...common.stderr import tell
from ...common.text import read_json
from ...node.machine import job_processes, leftovers, processes
from .messages import WORKER, LookAsk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAUSE = 0.02
"""Seconds between two looks."""

UNUSABLE = 1
"""Exit code if the folder cannot be made."""


def main(arguments: Sequence[str]) -> int:
    """Serve one node; the argument is the path of the folder, equal on all nodes."""
    if len(arguments) != 1 or not os.path.isabs(arguments[0]):
        raise UsageError("promises: expected the path of a folder")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(UNUSABLE))
    (folder,) = arguments
    try:
        make_folder(folder)
    except OSError as error:
        tell(f"{folder}: {reason(error)}")
        return UNUSABLE
    try:
        print("{}", flush=True)
        for line in sys.stdin.buffer:
            print(json.dumps({"left": look(asked(line))}), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # nodes that share it remove it together
    return 0


def make_folder(folder: str) -> None:
    """Make the folder with the program in it; a node that shares it may have done so.

    Raises:
        OSError: it cannot be made, or somebody else has made it.
    """
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        found = os.lstat(folder)
        private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
        if not private or found.st_uid != os.geteuid():
            raise
    own = f"{folder}/.{os.getpid()}-{time.monotonic_ns()}"
    shutil.copyfile(os.path.join(os.path.dirname(__file__), WORKER), own)
    os.replace(own, f"{folder}/{WORKER}")


def asked(line: bytes) -> LookAsk:
    """Return the question in a line.

    Raises:
        UsageError: the line is not a question.
    """
    try:
        value = read_json(line)
        owners = tuple(map(str, value["owners"]))
        return LookAsk(str(value["job"]), owners, float(value["seconds"]), bool(value["end"]))
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"promises: {error}") from None


def look(ask: LookAsk) -> list[str]:
    """Wait until no process of a job is left; return those left when the time is over, in words."""
    until = time.monotonic() + ask.seconds
    while (left := [*_left(ask)]) and time.monotonic() < until:
        time.sleep(PAUSE)
    if left and ask.end:
        for one in job_processes.find(ask.job):
            one.send(signal.SIGKILL)
            one.close()
    return left


def _left(ask: LookAsk) -> Iterator[str]:
    """Yield workers and their descendants, found by environment; node launchers and guards."""
    wanted, ours = os.fsencode(ask.job), processes.line_of(os.getpid())
    for pid in processes.newest_first():
        # Also those in containers, which have another number there.
        belongs = pid not in ours and leftovers.variable(pid, b"DSRUN_JOB_ID") == wanted
        if belongs and processes.started(pid):
            yield _words(pid)
    for pid, start in _numbers(ask.owners):
        if processes.started(pid) == start:
            yield _words(pid)


def _numbers(owners: Sequence[str]) -> Iterator[tuple[int, int]]:
    for one in dict.fromkeys(",".join(owners).split(",")):
        pid, _, start = one.partition(":")
        if pid.isdigit() and start.isdigit() and int(start):
            yield int(pid), int(start)


def _words(pid: int) -> str:
    return f"pid {pid} ({' '.join(lines_of(f'/proc/{pid}/comm'))})"
