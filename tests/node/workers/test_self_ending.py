"""Helpers of Python that end by themselves are not taken for what a job leaves running."""

from __future__ import annotations

import os

import pytest

from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.workers import self_ending

from ...support.limits import wait_for
from ...support.specs import python
from .test_group import Timed, Watched

pytestmark = pytest.mark.usefixtures("adopting")

TRACKER = "from multiprocessing.resource_tracker import main;main(5)"
"""The end of the command line of Python's resource tracker."""

STAYS = """
import os
ends, executed = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.execv("/bin/sleep", [{name!r}, "600"])
os.close(executed)
os.read(ends, 1)
"""
"""Leaves a process that has executed its program: the exec closes the pipe."""

REAL = {
    "resource tracker": "from multiprocessing import resource_tracker as r; r.ensure_running()",
    "fork server": "from multiprocessing import forkserver as f; f.ensure_running()",
}


@pytest.mark.parametrize("name", REAL)
def test_a_helper_that_ends_by_itself_is_no_news(name: str) -> None:
    watched = Watched(python(REAL[name]))
    watched.to_the_end()
    assert (watched.exits, watched.notes) == ({0: (0, False)}, [])


def test_a_helper_that_stays_is_named_and_stopped() -> None:
    timed = Timed(python(STAYS.format(name=TRACKER)))
    timed.until(lambda: not timed.group.running())
    timed.until(lambda: any(map(self_ending.is_helper, processes.children())))
    timed.clock.go(self_ending.MOMENT - 0.1)
    timed.group.on_reaped(processes.reap())
    assert not timed.group.over
    timed.clock.go(0.2)
    _exited, stopped, _ended = timed.ended()
    assert stopped[0] == "orphans_stopped"
    assert stopped[1].startswith("from multiprocessing.resource_tracker import main")


def test_others_are_named_at_once_and_without_the_helpers() -> None:
    text = f"{STAYS.format(name=TRACKER)}{STAYS.format(name='mine')}"
    timed = Timed(python(text))
    timed.until(lambda: not timed.group.running())
    timed.clock.go(self_ending.MOMENT)
    stopped = [one[1] for one in timed.ended() if one[0] == "orphans_stopped"]
    assert [names[:4] for names in stopped] == ["mine"]


def test_a_process_that_is_just_ending_is_none_that_was_left() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    wait_for(lambda: processes.stat(pid)[0] == "Z", "its end")
    assert self_ending.is_helper(pid)
    os.waitpid(pid, 0)
    assert not self_ending.is_helper(os.getpid())


@pytest.mark.parametrize(
    ("command", "helps"),
    [
        (TRACKER, True),
        ("from joblib.externals.loky.backend.resource_tracker import main; main(7, 0)", True),
        ("from multiprocessing.forkserver import main; main(8, 9, ['__main__'], **{})", True),
        ("/site-packages/torch/bin/torch_shm_manager", True),
        ("from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)", False),
        ("train.py --tracker resource_tracker", False),
    ],
)
def test_helpers_are_told_by_their_command_lines(command: str, helps: bool) -> None:
    assert bool(self_ending.HELPERS.search(command)) == helps
