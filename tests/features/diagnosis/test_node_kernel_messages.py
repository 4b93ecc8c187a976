"""What the kernel says, as kernels from 5.4 to 6.18 do."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.diagnosis.node_kernel_messages import (
    Crash,
    Victim,
    crashes,
    victims,
    xids,
)

CGROUP = (
    "memory: usage 65536kB, limit 65536kB, failcnt 40",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,"
    "task_memcg=/job/step,task=python3,pid=811,uid=0",
    "Memory cgroup out of memory: Killed process 811 (a (b) c) total-vm:90kB, anon-rss:2048kB,"
    " file-rss:7kB, shmem-rss:1024kB, UID:0 pgtables:256kB oom_score_adj:0",
)
MACHINE = (
    "Out of memory: Killed process 12 (python3) total-vm:90kB, anon-rss:4096kB, file-rss:7kB,"
    " shmem-rss:0kB, UID:1000 pgtables:256kB oom_score_adj:0"
)


def test_victims() -> None:
    assert victims([*CGROUP, "other", MACHINE]) == [
        Victim(811, "a (b) c", 3 << 20, "/job", 64 << 20),
        Victim(12, "python3", 4 << 20, "", 0),
    ]
    assert victims(CGROUP[2:]) == [Victim(811, "a (b) c", 3 << 20, "/", 0)]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.",
            "Xid 79 on 0000:3b:00: GPU has fallen off the bus.",
        ),
        (
            "NVRM: Xid (PCI:0000:3b:00): 31, pid='<unknown>', name=<unknown>, Ch 00000008",
            "Xid 31 on 0000:3b:00: Ch 00000008",
        ),
        (
            "NVRM: Xid (0000:17:00): 48, Double Bit ECC Error",
            "Xid 48 on 0000:17:00: Double Bit ECC Error",
        ),
    ],
)
def test_xids(line: str, text: str) -> None:
    assert xids([line, line, "NVRM: loading"]) == [text]


@pytest.mark.parametrize(
    ("line", "crash"),
    [
        (
            "python[20124]: segfault at 0 ip 00007f2b6a385ad8 sp 00007ffe4712a298 error 4 in"
            " libc.so.6[167ad8,7f2b6a244000+156000] likely on CPU 0 (core 0, socket 0)",
            Crash(20124, "segfault", "libc.so.6"),
        ),
        (
            "python3[9]: segfault at 7f ip 00007f sp 00007f error 14",
            Crash(9, "segfault", ""),
        ),
        (
            "traps: a b[52] general protection fault ip:7f sp:7f error:0 in libx.so[7f+1000]",
            Crash(52, "general protection fault", "libx.so"),
        ),
        (
            "traps: python3[52] trap invalid opcode ip:55 sp:7f error:0 in prog[55+1000]",
            Crash(52, "trap invalid opcode", "prog"),
        ),
    ],
)
def test_crashes(line: str, crash: Crash) -> None:
    assert crashes([line, "nothing"]) == [crash]
