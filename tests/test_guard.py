"""The guard of a node launcher, with real processes: whom it ends, and whom it spares."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dsrun.launcher.common.errors import LOST

from .specs import BOMB_LASTS, bomb

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PATIENCE = 0.4

BEGIN = f"""
import os, signal, subprocess, sys
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.node.guard import stand_guard

guard = stand_guard({PATIENCE})
subprocess.Popen(sys.argv[1:], start_new_session=True)
print(os.getpid(), flush=True)
"""
"""Its output ends with the last of what it has started."""

LIVE = f"""{BEGIN}
loop = Loop()
guard.be_missed(loop, {PATIENCE})

def live():
    print("lives", flush=True)
    loop.after({PATIENCE} / 4, live)

live()
loop.run()
"""

STILL = f"""{BEGIN}
os.kill(os.getpid(), signal.SIGSTOP)
"""

SILENT = (
    f"the node launcher showed no sign of life for {PATIENCE} s, and was killed;"
    " its workers were swept\n"
)


@contextmanager
def guarded(
    text: str = LIVE, child: Sequence[str] = ("sleep", "60")
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """(guard, pid of the node launcher); both are gone after the `with` block."""
    with subprocess.Popen(
        [sys.executable, "-c", text, *child],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as guard:
        assert guard.stdout is not None
        launcher = int(guard.stdout.readline())
        try:
            yield guard, launcher
        finally:
            with suppress(ProcessLookupError):
                if guard.poll() is None:
                    os.kill(launcher, signal.SIGKILL)


def test_a_node_launcher_that_stands_still_is_ended_with_all_it_has_started() -> None:
    with guarded() as (guard, launcher):
        os.kill(launcher, signal.SIGSTOP)
        errors = guard.communicate(timeout=30)[1]
    assert (guard.returncode, errors) == (LOST, SILENT)


def test_a_node_launcher_is_missed_before_it_has_shown_any_sign_of_life() -> None:
    with guarded(STILL) as (guard, _):
        errors = guard.communicate(timeout=30)[1]
    assert (guard.returncode, errors) == (LOST, SILENT)


def test_a_fork_bomb_is_ended_with_its_node_launcher(tmp_path: Path) -> None:
    began = time.monotonic()
    with guarded(LIVE, [sys.executable, "-I", "-S", "-c", bomb(tmp_path, 80)]) as (guard, launcher):
        assert guard.stdout is not None
        while guard.stdout.readline() != "full\n":
            pass
        os.kill(launcher, signal.SIGKILL)
        errors = guard.communicate(timeout=20)[1]
    assert errors == "the node launcher was killed by SIGKILL; its workers were swept\n"
    assert time.monotonic() - began < BOMB_LASTS


def test_a_guard_that_stood_still_as_well_blames_nobody() -> None:
    """A scheduler suspends all processes of a job, and lets them go on in any order."""
    with guarded() as (guard, launcher):
        for pid in (launcher, guard.pid):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(3 * PATIENCE)
        for pid in (guard.pid, launcher):
            os.kill(pid, signal.SIGCONT)
        assert guard.stdout is not None
        for _ in range(12):
            assert guard.stdout.readline() == "lives\n"
