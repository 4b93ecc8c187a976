"""Evidence on this machine about the end of a worker. Imported only once a worker has failed.

Each piece is a line with its kind: `memory: ...`, `disk: ...`; the runner's table uses them.
"""

from __future__ import annotations

import os
import signal

from ...common import system
from ...common.text import plain
from . import node_memory as memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...node.workers.spawn import Process
    from .node_kernel_messages import Crash, Victim
    from .node_memory import Kills

LONGEST = 300
"""Characters of a line."""

MOST_XIDS = 4

FIRST_NAMESPACE = 0xEFFFFFFC
"""The inode of the first pid namespace, in which the kernel counts (linux/proc_ns.h)."""

SMALL_SHM = 1 << 30
"""Bytes of /dev/shm below which it is suspected after a bus error: containers give 64 MiB, and the
worker's share was freed with the worker."""


class MachineHistory:
    """The events on this machine since the workers were started."""

    def __init__(
        self, messages: Sequence[str], before: Kills, after: Kills, *, readable: bool
    ) -> None:
        """Create evidence from facts that were read.

        Args:
            messages: the kernel's messages.
            before: the number of processes that the kernel had ended for lack of memory.
            after: this number now.
            readable: whether kernel messages are readable.
        """
        self._before, self._after = before, after
        self._victims: list[Victim] = []
        self._xids: list[str] = []
        self._crashes: list[Crash] = []
        if messages:
            from .node_kernel_messages import crashes, victims, xids

            self._victims, self._xids = victims(messages), xids(messages)
            self._crashes = crashes(messages)
        self._complete = readable and system.stat("/proc/self/ns/pid").st_ino == FIRST_NAMESPACE

    def of(self, ended: Process, code: int) -> list[str]:
        """Return the evidence about the end of one worker, given its exit code."""
        found = [*self._memory(ended.pid, code), *self._devices(), *self._crash(ended, code)]
        if -code == signal.SIGBUS:
            found += shared_memory()
        return [plain(text)[:LONGEST] for text in found]

    def _memory(self, pid: int, code: int) -> Iterator[str]:
        victims = self._victims
        if -code == signal.SIGKILL and self._complete:
            victims = [one for one in victims if one.pid == pid]
        elif not victims:
            yield from self._counted()
        for victim in victims[-1:]:
            yield f"memory: {_words(victim)}"

    def _counted(self) -> Iterator[str]:
        """Yield evidence from the counters, for use without the kernel's messages."""
        folder = memory.risen(self._before, self._after)
        most = memory.limit(folder) if folder else 0
        if most:
            yield (
                "memory: the kernel's OOM killer was active in its cgroup,"
                f" whose limit is {most >> 20} MiB"
            )
        elif self._after.machine > self._before.machine:
            count = self._after.machine - self._before.machine
            yield f"memory: the kernel's OOM killer was active on this machine (oom_kill +{count})"

    def _devices(self) -> Iterator[str]:
        for text in self._xids[:MOST_XIDS]:
            yield f"xid: {text}"

    def _crash(self, ended: Process, code: int) -> Iterator[str]:
        """Yield the place of a worker's crash, and the path of its memory dump."""
        if code >= 0:
            return
        crashes = self._crashes
        if self._complete:
            crashes = [one for one in crashes if one.pid == ended.pid]
        if len({one.file for one in crashes}) == 1 and crashes[0].file:
            yield f"crash: native code crashed in {crashes[0].file} ({crashes[0].what})"
        if os.WCOREDUMP(ended.status or 0):
            from .node_core_dump import place

            if where := place(ended.pid, -code, os.fsdecode(ended.spec.workdir)):
                yield f"core: {where}"


def shared_memory() -> Iterator[str]:
    """Yield the free space in /dev/shm, if that may be the cause of a bus error."""
    try:
        stat = system.statvfs("/dev/shm")
    except OSError:
        return
    total, free = stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize
    room = f"{free >> 20} of {total >> 20} MiB are free"
    if total and free * 100 < total:
        yield f"shm: /dev/shm is full: {room}"
    elif total < SMALL_SHM:
        yield f"small: /dev/shm is small: {room}; a lack of room there often causes bus errors"


def of_output(ended: Process, output: str) -> list[str]:
    """Return evidence about errors at the end of a worker's output."""
    found = []
    if "No space left on device" in output or "unexpected pos" in output:
        from .node_disks import full

        environ = {os.fsdecode(key): os.fsdecode(one) for key, one in ended.spec.env.items()}
        if text := full(output, os.fsdecode(ended.spec.workdir), environ):
            found.append(f"disk: {text}")
    if "EADDRINUSE" in output or "ddress already in use" in output:
        from .node_port_holder import holder, shared

        if text := holder(output):
            found.append(f"port: {text}")
        elif text := shared(output, ended.spec):
            found.append(f"shared: {text}")
    return [plain(text)[:LONGEST] for text in found]


def of_outputs(failed: Sequence[Process], tails: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return evidence about errors in the last outputs of workers, in lines by rank."""
    outputs = ((one, "\n".join(tails.get(f"{one.spec.rank}", ()))) for one in failed)
    found = {f"{one.spec.rank}": "\n".join(of_output(one, text)) for one, text in outputs}
    return {rank: text for rank, text in found.items() if text}


def _words(victim: Victim) -> str:
    what = f"{victim.name} (pid {victim.pid}), which used {victim.size >> 20} MiB"
    if not victim.group:
        return f"the kernel's OOM killer killed {what}: the machine was out of memory"
    limit = f" of {victim.limit >> 20} MiB" if victim.limit else ""
    return (
        f"the kernel's OOM killer killed {what}: its cgroup {victim.group} was at its limit{limit}"
    )
