"""The bindings of workers according to the kernel, read once their programs run."""

from __future__ import annotations

import os
import re

from ....accelerator.hardware import sysfs
from ...common import system
from ...control.messages import WorkerBinding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop, Timer
    from ...node.workers.spawn import Process

    Report = Callable[[Sequence[tuple[str, str]]], None]

_CPUS = re.compile(r"^Cpus_allowed_list:\s*(\S+)", re.MULTILINE)
_MEMORY = re.compile(r"^Mems_allowed_list:\s*(\S+)", re.MULTILINE)

INTERVAL = 0.01
"""Seconds between two checks of workers whose program has not started yet."""

PATIENCE = 2.0
"""Seconds for numactl to be replaced by the worker's program."""


class AffinityWatch:
    """Waits until no worker is numactl any longer, then reports all bindings once."""

    def __init__(self, loop: Loop, processes: Sequence[Process], report: Report) -> None:
        """Start to check the workers; `report` is called with the kernel's values for each."""
        self._loop = loop
        self._processes = processes
        self._report = report
        self._until = loop.clock() + PATIENCE
        self._seen: dict[int, tuple[str, str]] = {}
        self._timer: Timer | None = None
        self._done = False
        self._check()

    def finish(self) -> None:
        """Report now, if not yet done."""
        if self._done:
            return
        self._done = True
        if self._timer is not None:
            self._timer.cancel()
        for process in self._processes:
            self._read(process)
        self._report([self._seen.get(process.pid, ("", "")) for process in self._processes])

    def _check(self) -> None:
        waiting = [process for process in self._processes if _is_numactl(process)]
        for process in self._processes:
            if process not in waiting:  # it may end before the other programs start
                self._read(process)
        if waiting and self._loop.clock() < self._until:
            self._timer = self._loop.call_later(INTERVAL, self._check)
        else:
            self.finish()

    def _read(self, process: Process) -> None:
        """Keep the first values of a worker's own program; an ended worker has none."""
        if process.status is None and process.pid not in self._seen:
            self._seen[process.pid] = allowed(process.pid)


def allowed(pid: int) -> tuple[str, str]:
    """Return the CPUs and the memory that a process may use; "" for a value that cannot be read.

    The memory is its NUMA nodes, preceded by the policy if one is set: `bind:0`.
    Source: proc(5), `/proc/PID/status` and `/proc/PID/numa_maps`.
    """
    status = sysfs.text(f"/proc/{pid}/status")
    cpus, memory = _CPUS.search(status), _MEMORY.search(status)
    # The first mapping of a program follows the policy of its process.
    words = sysfs.text(f"/proc/{pid}/numa_maps").partition("\n")[0].split()
    policy = words[1] if len(words) > 1 and words[1] != "default" else ""
    return cpus[1] if cpus else "", policy or (memory[1] if memory else "")


def placed(
    rows: Sequence[WorkerBinding], values: Sequence[tuple[str, str]]
) -> tuple[WorkerBinding, ...]:
    """Return the workers with the kernel's values filled in."""
    return tuple(
        row._replace(cpus=cpus, memory=memory)
        for row, (cpus, memory) in zip(rows, values, strict=False)
    )


def _is_numactl(process: Process) -> bool:
    try:
        return os.path.basename(system.readlink(f"/proc/{process.pid}/exe")) == "numactl"
    except OSError:
        return False
