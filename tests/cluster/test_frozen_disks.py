"""A file system that a user names does not answer: no node launcher may wait for it.

A process that does cannot be killed before there is an answer. So it must be none that others wait
for: neither its guard, nor the runner.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node.machine import processes

from ..support.frozen import frozen, mounted, silent
from ..support.limits import wait_for
from .command import COMMAND, Running

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "TEST_FROZEN_DISK"

FAILS = """
import sys
sys.exit("OSError: [Errno 28] No space left on device: '{path}'")
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that a test may freeze."""
    with mounted(tmp_path) as point:
        yield point


def dsrun(*words: str, cwd: Path) -> Running:
    """Start a job of one worker on this machine, in this folder."""
    command = [*COMMAND, "--launcher", "local", "--accelerator", "cpu", "--num_gpus", "1", *words]
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, MARK: str(cwd)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    return Running(process)


def states(cwd: Path) -> list[str]:
    """The states of all processes of jobs in this folder."""
    found = []
    for pid in processes.pids():
        with suppress(OSError):
            if f"{MARK}={cwd}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(processes.stat(pid)[0])
    return found


def test_a_start_waits_for_a_disk_and_says_so(disk: Path, tmp_path: Path) -> None:
    folder = disk / "a" / "b"
    with frozen(disk):
        running = dsrun("--log_dir", str(folder), "--no_python", "true", cwd=tmp_path)
        running.wait_for_output(f"localhost: no answer from {folder} for 5 s: the start waits")
    assert running.wait().returncode == 0
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_start_that_waits_for_a_disk_can_be_stopped(
    disk: Path, tmp_path: Path, number: int
) -> None:
    """What waits for the disk has no other part: it ends when there is an answer."""
    with frozen(disk):
        running = dsrun("--log_dir", str(disk / "a"), "--no_python", "true", cwd=tmp_path)
        running.wait_for_output("no answer from")
        os.kill(running.pid, number)
        done = running.wait()
        assert done.returncode == 128 + number
        wait_for(lambda: states(tmp_path) == ["D"], "the end of all others")
    wait_for(lambda: not states(tmp_path), "the end of what has waited")


@pytest.mark.parametrize("option", ["--workdir", "--log_dir", "--report_file", "--hostfile", ""])
def test_a_command_says_which_of_its_own_files_it_waits_for(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, option: str
) -> None:
    with silent(tmp_path_factory.mktemp("server")) as point:
        path = str(point / "named")
        running = dsrun(*((option, path, "w.py") if option else (path,)), cwd=tmp_path)
        running.wait_for_output(f"dsrun: no answer from {path} for 5 s: waiting for its file")
        os.kill(running.pid, signal.SIGINT)
        assert running.wait().returncode == -signal.SIGINT


def test_the_report_does_not_wait_for_a_server_that_is_gone(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It is asked whether its disk is full, as a failed worker says."""
    with silent(tmp_path_factory.mktemp("server")) as point:
        (tmp_path / "w.py").write_text(FAILS.format(path=point / "model"))
        done = dsrun("w.py", cwd=tmp_path).wait()
    assert done.returncode == 1
    assert "localhost: no answer from the file systems of failed workers for 5 s" in done.stderr
    assert "No space left on device" in done.stderr
