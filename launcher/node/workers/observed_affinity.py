"""What a worker is bound to by the kernel's own account, once its program runs."""

from __future__ import annotations

import os
import re

from ....accelerator import sysfs
from ...control.messages import Placed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop
    from .spawn import Process

    Tell = Callable[[Sequence[tuple[str, str]]], None]

_CPUS = re.compile(r"^Cpus_allowed_list:\s*(\S+)", re.MULTILINE)
_MEMORY = re.compile(r"^Mems_allowed_list:\s*(\S+)", re.MULTILINE)

AGAIN = 0.01
"""Seconds between two looks at a worker that is still on its way to its program."""

PATIENCE = 2.0
"""Seconds for numactl to have become the worker's program."""


class Watch:
    """Waits until no worker is numactl any more, and then says what each is bound to."""

    def __init__(self, loop: Loop, processes: Sequence[Process], tell: Tell) -> None:
        """Begin to look at the workers on `loop`; `tell` is given the kernel's word on each."""
        self._loop = loop
        self._processes = processes
        self._tell = tell
        self._until = loop.clock() + PATIENCE
        self._look()

    def _look(self) -> None:
        if any(map(_on_its_way, self._processes)) and self._loop.clock() < self._until:
            self._loop.after(AGAIN, self._look)
            return
        self._tell([standing(process.pid) for process in self._processes])


def standing(pid: int) -> tuple[str, str]:
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


def placed(rows: Sequence[Placed], standings: Sequence[tuple[str, str]]) -> tuple[Placed, ...]:
    """Return the workers with what the kernel says of them put in."""
    return tuple(
        row._replace(cpus=cpus, memory=memory)
        for row, (cpus, memory) in zip(rows, standings, strict=False)
    )


def _on_its_way(process: Process) -> bool:
    try:
        return os.path.basename(os.readlink(f"/proc/{process.pid}/exe")) == "numactl"
    except OSError:
        return False
