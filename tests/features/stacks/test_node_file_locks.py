"""Who holds the file lock for which a process waits."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.stacks.node_file_locks import held, holders

from ...support.limits import wait_for

if TYPE_CHECKING:
    from pathlib import Path

TAKE = {
    "flock": "import fcntl, sys; fcntl.flock(open(sys.argv[1], 'w'), fcntl.LOCK_EX)",
    "lockf": "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'w'), fcntl.LOCK_EX)",
}
TOLD = """1: POSIX  ADVISORY  WRITE 700 00:2f:9 0 EOF
2: FLOCK  ADVISORY  WRITE 800 00:2f:7 0 EOF
2: -> FLOCK  ADVISORY  WRITE 801 00:2f:7 0 EOF
2:  -> FLOCK  ADVISORY  READ  802 00:2f:7 0 EOF
3: OFDLCK ADVISORY  WRITE -1 00:2f:5 0 EOF
3: -> POSIX  ADVISORY  WRITE 803 00:2f:5 0 EOF
4: LEASE  ACTIVE    READ 0 00:2f:4 0 EOF
4: -> FLOCK  ADVISORY  WRITE 804 00:2f:4 0 EOF
nonsense
"""


def test_what_the_kernel_tells() -> None:
    assert dict(held(TOLD.splitlines())) == {801: 800, 802: 800}


@pytest.mark.parametrize("kind", TAKE)
def test_a_process_that_waits(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "lock"
    holds = f"{TAKE[kind].replace('open(', 'f := open(')}; print(flush=True); input()"
    argv = [sys.executable, "-c", holds, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with subprocess.Popen([sys.executable, "-c", TAKE[kind], str(path)]) as waits:
            wait_for(lambda: holders().get(waits.pid) == holder.pid, "the holder")
            holder.communicate(b"\n")
        assert waits.returncode == 0
    assert waits.pid not in holders()
