"""The kernel's messages about processes that it ends, and about devices. Pure.

Sources: mm/oom_kill.c, mm/memcontrol.c, arch/x86/mm/fault.c and kernel/traps.c of Linux 5.4 to
6.18; NVIDIA's "XID Errors" for the form of its lines.
"""

from __future__ import annotations

import re

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_KILLED = re.compile(
    r"(?P<by>Memory cgroup out of memory|Out of memory)[^:]*: Killed process (?P<pid>\d+)"
    r" \((?P<name>.*)\) total-vm:\d+kB, anon-rss:(?P<anon>\d+)kB, file-rss:\d+kB,"
    r" shmem-rss:(?P<shared>\d+)kB"
)
_LIMIT = re.compile(r"^memory: usage \d+kB, limit (?P<limit>\d+)kB, failcnt \d+")
_GROUP = re.compile(r"oom-kill:constraint=\w+,.*\boom_memcg=(?P<group>.*),task_memcg=")
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<device>[\w:.]+)[^)]*\): (?P<number>\d+),?"
    r"(?: pid=[^,]*,)?(?: name=[^,]*,)?(?: channel 0x\w+,?)?\s*(?P<text>.*)"
)
_CRASH = re.compile(
    r"(?:traps: )?(?P<name>.+)\[(?P<pid>\d+)\]:? (?P<what>segfault|general protection fault"
    r"|trap \w[\w ]*?)(?: at \w+)? ip.*? error:?\s?\w+(?: in (?P<file>[^\[]+))?"
)


class Victim(NamedTuple):
    """A process that the kernel ended for lack of memory.

    Attributes:
        pid: the pid in the kernel's own numbering.
        size: bytes of memory that it had.
        group: the cgroup whose limit was reached, or "".
        limit: that limit in bytes; 0 if unknown.
    """

    pid: int
    name: str
    size: int
    group: str
    limit: int


class Crash(NamedTuple):
    """A process that crashed in native code; `file` is the library, "" if unknown."""

    pid: int
    what: str
    file: str


def victims(lines: Sequence[str]) -> list[Victim]:
    """Return the processes that were ended because memory was short, the oldest first."""
    found = []
    group, limit = "", 0
    for line in lines:
        if match := _LIMIT.search(line):
            limit = int(match["limit"]) << 10
        elif match := _GROUP.search(line):
            group = match["group"]
        elif match := _KILLED.search(line):
            size = (int(match["anon"]) + int(match["shared"])) << 10
            limited = match["by"].startswith("Memory cgroup")
            where = (group or "/", limit) if limited else ("", 0)
            found.append(Victim(int(match["pid"]), match["name"], size, *where))
    return found


def xids(lines: Sequence[str]) -> list[str]:
    """Return the reports of NVIDIA's driver on its devices, each report once."""
    found = [match for line in lines if (match := _XID.search(line))]
    return list(
        dict.fromkeys(f"Xid {one['number']} on {one['device']}: {one['text']}" for one in found)
    )


def crashes(lines: Sequence[str]) -> list[Crash]:
    """Return the crashed processes."""
    found = [match for line in lines if (match := _CRASH.match(line))]
    return [Crash(int(one["pid"]), one["what"], (one["file"] or "").strip()) for one in found]
