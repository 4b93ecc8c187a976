"""Jobs that a test launches from Python: processes that are alive, and jobs that have begun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from dsrun.launcher.api import Output

from .checkout import IMPORTABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.api import Job


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def printed(job: Job) -> bytes:
    """Return the first thing that a rank of a job has printed, once it has."""
    for event in job.events():
        if isinstance(event, Output):
            return event.data
    pytest.fail(f"{job} has ended")


def begun(job: Job) -> Job:
    """Return a job once a rank has printed something."""
    printed(job)
    return job


@contextmanager
def program(path: Path, text: str, *args: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Run a Python program; yields it and what it prints, and kills it if it still runs."""
    path.write_text(text)
    running = subprocess.Popen(
        [sys.executable, str(path), *args],
        env={**os.environ, **IMPORTABLE},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    with running.stdout:
        try:
            yield running, running.stdout
        finally:
            running.kill()
            running.wait()


def pause() -> None:
    """Print something, and wait for a signal that ends this process; for a rank."""
    print("up", flush=True)
    signal.pause()
