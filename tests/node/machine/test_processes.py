"""What the kernel shows of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.features.stacks import node_family as family
from dsrun.launcher.node.machine import processes

from ...support.frozen import frozen, mounted
from ...support.limits import wait_for


def test_children_and_their_names() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        assert processes.children() == [child.pid]
        assert processes.parent(child.pid) == os.getpid()
        assert processes.started(child.pid) >= processes.started(os.getpid()) > 0
        child.kill()
    assert processes.children() == []
    assert processes.parent(child.pid) == processes.started(child.pid) == 0


def test_the_newest_come_first_and_what_starts_meanwhile_comes_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lasts = iter([301, 301, 302, 302, 7, 7])
    monkeypatch.setattr(processes, "pids", lambda: [1, 300, 301, 32000, 32001])
    monkeypatch.setattr(processes, "last_pid", lambda: next(lasts))
    assert [*processes.newest_first()] == [301, 302, 300, 1, 7, 32001, 32000]


def test_the_last_pid_is_that_of_a_child_at_the_latest() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        assert child.pid in processes.newest_first()
        assert processes.last_pid() > 0
        child.kill()


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\r", "\x85"], ids=ascii)
def test_users_are_not_read_from_the_name_of_a_process(end: str) -> None:
    """It may have all that ends a line but a line feed, which the kernel escapes (proc(5))."""
    name = f"{end}Uid: x"
    named = f"import ctypes; ctypes.CDLL(None).prctl(15, {name.encode()!r})"
    argv, pipe = [sys.executable, "-ISc", f"{named}; print(flush=True); input()"], subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as child:
        assert child.stdout
        child.stdout.readline()
        assert processes.uids(child.pid) == {os.getuid()}
        assert family.status(child.pid)["Name"] == name.strip()
        child.kill()


def test_of_a_command_line_only_the_beginning_is_told() -> None:
    lines, long = "é\n" * 9, "x" * 1000
    with subprocess.Popen(["sh", "-c", "read -r _", lines, long], stdin=-1) as child:
        words = f"sh -c read -r _ {lines} {long}"
        wait_for(lambda: processes.command(child.pid, 60) == words[:60], "the command")
        assert processes.command(child.pid, 2000) == words
        child.kill()
    assert processes.command(child.pid, 60) == ""


def test_a_process_that_does_not_end_is_described() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        wait_for(lambda: processes.stat(child.pid)[0] == "S", "the sleep")
        where = Path(f"/proc/{child.pid}/wchan").read_text(encoding="ascii").strip() or "?"
        assert processes.stuck(child.pid) == f"pid {child.pid}, state S, waiting in {where}"
        child.kill()
    assert processes.stuck(child.pid) == f"pid {child.pid}, state ?, waiting in ?"
    assert processes.stuck(child.pid).count("another user") == 0


def test_of_a_process_that_waits_for_a_disk_it_is_told_which_one(tmp_path: Path) -> None:
    with mounted(tmp_path) as disk, (disk / "log").open("w") as log:
        with frozen(disk):
            child = subprocess.Popen(["echo", "x"], stdout=log)
            # Not any sleep: the program itself may have to be read from a disk first.
            wait_for(lambda: f" for {disk}/log" in processes.stuck(child.pid), "the sleep")
            text = processes.stuck(child.pid)
        child.wait()
    advice = "it exits once that disk, server or device answers; check that and dmesg"
    assert f" for {disk}/log: {advice}, or reboot the host" in text


@pytest.mark.usefixtures("adopting")
def test_orphans_of_ones_own_become_children() -> None:
    words = ["sh", "-c", "sleep 600 >&- 2>&- & echo $!"]
    orphan = int(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    assert processes.children() == [orphan]
    assert processes.send(orphan, signal.SIGKILL)
    os.waitpid(orphan, 0)
