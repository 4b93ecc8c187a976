"""The process that writes logs, from inside."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.workers.log_process import HEAD, fork, problem
from dsrun.launcher.node.workers.logs import RankLog

from ...support.limits import wait_for

pytestmark = pytest.mark.usefixtures("adopting")


def test_records_are_written_until_the_end_of_the_line(tmp_path: Path) -> None:
    path = tmp_path / "out"
    pid, line = fork(lambda warn: {7: RankLog({1: str(path)}, created, warn)})
    with line:
        line.setblocking(True)
        assert problem(line.recv(100)) is None
        others = [str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()]
        for data in (b"one", b"two"):
            line.send(HEAD.pack(7, 1) + data)
    assert os.waitpid(pid, 0) == (pid, 0)
    assert path.read_bytes() == b"onetwo"
    # Neither a worker's pipe nor a stream of the session is open because a disk does not answer.
    kinds = {one.partition(":")[0] for one in others} - {os.devnull, str(path)}
    assert kinds == {"socket"}
    assert sum(one.startswith("socket:") for one in others) == 1


def test_a_log_that_ends_early_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "out"
    pid, line = fork(lambda warn: {0: RankLog({1: str(path)}, lambda _: full(), warn)})
    with line:
        line.setblocking(True)
        assert problem(line.recv(100)) is None
        line.send(HEAD.pack(0, 1) + b"text")
        said = line.recv(1000).decode()
    assert said == f"{path}: {os.strerror(errno.ENOSPC)}; the log ends here"
    assert os.waitpid(pid, 0) == (pid, 0)


@pytest.mark.parametrize("name", ["out", "\udcff"])
def test_why_a_log_cannot_be_opened(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    os.close(created(path))
    pid, line = fork(lambda warn: {0: RankLog({1: path}, created, warn)})
    with line:
        line.setblocking(True)
        found = problem(line.recv(1000))
    assert isinstance(found, FileExistsError)
    assert (found.filename, found.strerror) == (path, "File exists")
    assert os.waitpid(pid, 0) == (pid, 0)


def created(path: str) -> int:
    """Open a new file."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)


def full() -> int:
    """Open what cannot be written to, as on a full disk."""
    return os.open("/dev/full", os.O_WRONLY)


def test_the_writer_ends_with_the_node_launcher() -> None:
    """Even if it does not read the end of its line."""
    program = (
        "import os, signal, sys\n"
        "from dsrun.launcher.node.workers.log_writer import LogWriter\n"
        "logs = LogWriter({0: {1: '/out'}}, lambda _: {}, print, 100.0)\n"
        "os.kill(logs.pid, signal.SIGSTOP)\n"
        "os.waitid(os.P_PID, logs.pid, os.WSTOPPED)\n"
        "print(logs.pid, flush=True)\n"
        "signal.pause()\n"
    )
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout
        pid = int(launcher.stdout.readline())
        launcher.kill()
    wait_for(lambda: processes.children() == [pid], "the writer to be adopted")
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
