"""What a worker is bound to by the kernel's own account, once its program runs."""

from __future__ import annotations

import os
import re

from ....accelerator.hardware import sysfs
from ...control.messages import WorkerBinding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop, Timer
    from .spawn import Process

    Report = Callable[[Sequence[tuple[str, str]]], None]

_CPUS = re.compile(r"^Cpus_allowed_list:\s*(\S+)", re.MULTILINE)
_MEMORY = re.compile(r"^Mems_allowed_list:\s*(\S+)", re.MULTILINE)

AGAIN = 0.01
"""Seconds between two looks at a worker that is still on its way to its program."""

PATIENCE = 2.0
"""Seconds for numactl to have become the worker's program."""


class AffinityWatch:
    """Waits until no worker is numactl any more, and then reports what each is bound to, once."""

    def __init__(self, loop: Loop, processes: Sequence[Process], report: Report) -> None:
        """Begin to look at the workers on `loop`; `report` is given the kernel's word on each."""
        self._loop = loop
        self._processes = processes
        self._report = report
        self._until = loop.clock() + PATIENCE
        self._seen: dict[int, tuple[str, str]] = {}
        self._timer: Timer | None = None
        self._done = False
        self._look()

    def finish(self) -> None:
        """Report now, if that has not been done."""
        if self._done:
            return
        self._done = True
        if self._timer is not None:
            self._timer.cancel()
        for process in self._processes:
            self._see(process)
        self._report([self._seen.get(process.pid, ("", "")) for process in self._processes])

    def _look(self) -> None:
        waiting = [process for process in self._processes if _on_its_way(process)]
        for process in self._processes:
            if process not in waiting:  # it may have ended by the time that others are there
                self._see(process)
        if waiting and self._loop.clock() < self._until:
            self._timer = self._loop.call_later(AGAIN, self._look)
        else:
            self.finish()

    def _see(self, process: Process) -> None:
        """Keep the first word on a worker's own program; of one that has ended there is none."""
        if process.status is None and process.pid not in self._seen:
            self._seen[process.pid] = allowed(process.pid)


def allowed(pid: int) -> tuple[str, str]:
    """Return the cpus and the memory a process may use; "" for what cannot be read any more.

    The memory is its NUMA nodes, with the policy before them where one is set: `bind:0`.
    Source: proc(5), `/proc/PID/status` and `/proc/PID/numa_maps`.
    """
    status = sysfs.text(f"/proc/{pid}/status")
    cpus, memory = _CPUS.search(status), _MEMORY.search(status)
    # The first mapping of a program obeys the policy of its process.
    words = sysfs.text(f"/proc/{pid}/numa_maps").partition("\n")[0].split()
    policy = words[1] if len(words) > 1 and words[1] != "default" else ""
    return cpus[1] if cpus else "", policy or (memory[1] if memory else "")


def placed(
    rows: Sequence[WorkerBinding], found: Sequence[tuple[str, str]]
) -> tuple[WorkerBinding, ...]:
    """Return the workers with what the kernel says of them put in."""
    return tuple(
        row._replace(cpus=cpus, memory=memory)
        for row, (cpus, memory) in zip(rows, found, strict=False)
    )


def _on_its_way(process: Process) -> bool:
    try:
        return os.path.basename(os.readlink(f"/proc/{process.pid}/exe")) == "numactl"
    except OSError:
        return False
