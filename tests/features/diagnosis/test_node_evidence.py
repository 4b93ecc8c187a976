"""What a node finds after a worker's end."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from dsrun.launcher.common import system
from dsrun.launcher.features.diagnosis import node_evidence as evidence
from dsrun.launcher.features.diagnosis import node_memory as memory
from dsrun.launcher.features.diagnosis.node_evidence import (
    MachineHistory,
    of_output,
    of_outputs,
    shared_memory,
)
from dsrun.launcher.features.diagnosis.node_memory import Kills
from dsrun.launcher.node.workers.spawn import Process

from ...support.specs import shell
from .test_node_kernel_messages import CGROUP, MACHINE

NONE = Kills(0, {})


def worker(pid: int = 811, status: int = 0, rank: int = 0) -> Process:
    made = Process(shell("exit 0", rank), pid, -1, -1, -1)
    made.status = status
    return made


def seen(*messages: str, after: Kills = NONE, readable: bool = True) -> MachineHistory:
    return MachineHistory(messages, NONE, after, readable=readable)


@pytest.fixture(autouse=True)
def _first_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pids in the kernel's messages are those of this machine."""
    monkeypatch.setattr(evidence, "FIRST_NAMESPACE", Path("/proc/self/ns/pid").stat().st_ino)


def test_which_process_had_how_much_of_what() -> None:
    assert seen(*CGROUP).of(worker(), -signal.SIGKILL) == [
        "memory: the kernel's OOM killer killed a (b) c (pid 811), which used 3 MiB:"
        " its cgroup /job was at its limit of 64 MiB"
    ]
    assert seen(MACHINE).of(worker(12), -signal.SIGKILL) == [
        "memory: the kernel's OOM killer killed python3 (pid 12), which used 4 MiB:"
        " the machine was out of memory"
    ]


def test_a_worker_that_something_else_has_killed() -> None:
    found = seen(*CGROUP, after=Kills(1, {})).of(worker(9), -signal.SIGKILL)
    assert found == []


def test_a_worker_whose_data_loader_was_killed() -> None:
    (found,) = seen(*CGROUP).of(worker(9), 1)
    assert "pid 811" in found


@pytest.mark.parametrize(
    ("limit", "words"),
    [(64 << 20, "in its cgroup, whose limit is 64 MiB"), (0, "on this machine (oom_kill +2)")],
)
def test_counters_where_the_messages_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, limit: int, words: str
) -> None:
    monkeypatch.setattr(memory, "limit", lambda _: limit)
    one = MachineHistory((), Kills(1, {"/a": 1}), Kills(3, {"/a": 2}), readable=False)
    (found,) = one.of(worker(), -signal.SIGKILL)
    assert found.endswith(words)


def test_a_crash_and_the_core_dump() -> None:
    line = "python3[811]: segfault at 0 ip 00007f sp 00007f error 4 in libx.so[7f+1000]"
    found = seen(line).of(worker(status=signal.SIGSEGV | 0x80), -signal.SIGSEGV)
    assert found[0] == "crash: native code crashed in libx.so (segfault)"
    assert found[1].startswith("core: ")
    assert seen(line).of(worker(12), -signal.SIGSEGV) == []
    assert seen(line).of(worker(), 1) == []


def test_reports_of_devices() -> None:
    lines = [f"NVRM: Xid (PCI:0000:3b:00): {number}, x" for number in range(40, 60)]
    assert seen(*lines).of(worker(), 1)[:1] == ["xid: Xid 40 on 0000:3b:00: x"]
    assert len(seen(*lines).of(worker(), 1)) == evidence.MOST_XIDS


@pytest.mark.parametrize(
    ("total", "free", "found"),
    [
        (64, 0, "0 of 64 MiB are free"),
        (64, 64, "64 of 64 MiB are free"),
        (1 << 16, 1, "1 of 65536 MiB are free"),
        (1 << 16, 1 << 15, ""),
    ],
)
def test_a_small_or_full_shared_memory(
    monkeypatch: pytest.MonkeyPatch, total: int, free: int, found: str
) -> None:
    stat = os.statvfs_result((1 << 20, 1 << 20, total, free, free, 9, 9, 9, 0, 255))
    monkeypatch.setattr(system, "statvfs", lambda _: stat)
    texts = list(shared_memory())
    assert [found in text for text in texts] == [True] * bool(found)
    assert ["is full" in text for text in texts] == [free * 100 < total] * bool(found)
    ended = seen().of(worker(), -signal.SIGBUS)
    assert len(ended) == bool(found)


def test_an_output_that_shows_no_such_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(system, "statvfs", never)
    monkeypatch.setattr(system, "listdir", never)
    assert of_output(worker(), "ValueError: boom") == []


def test_what_outputs_show_is_told_by_rank() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        text = f"127.0.0.1:{one.getsockname()[1]}: Address already in use"
        found = of_outputs([worker(), worker(rank=1)], {"0": ["", text], "1": ["", "boom"]})
    assert [*found] == ["0"]
    assert found["0"].startswith("port: port ")
