"""The visible devices as NVIDIA's driver describes them, asked by a forked child.

A device that does not answer would block the process that asks (compare `jobs/node_usage`).
Without NVML the driver's files in /proc still have the names.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress

from ....accelerator.hardware import nvml
from ...common.text import read_json
from ...control.facts import DeviceFacts
from ...node.machine import processes
from ...node.machine.blocking import call_in_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ....accelerator.hardware.nvml import Gpu

SECONDS = 2.0
"""Seconds for the driver to answer."""

ASKED = ("name", "uuid", "address", "total", "used", "processes", "uncorrected", "rows")
"""The properties that are read for each device."""


class DeviceFactsQuestion:
    """Asks while other facts are collected: `begin`, then `answer`."""

    def __init__(self, ask: Callable[[], list[Any]]) -> None:
        """Start a child that calls `ask`; the result must fit into JSON."""
        self._pid, self._read = call_in_child(ask)
        self._end = time.monotonic() + SECONDS

    def answer(self) -> list[Any]:
        """Return the child's answer, [] if it is late."""
        data, poll = b"", select.poll()
        poll.register(self._read, select.POLLIN)
        while poll.poll(max(0.0, self._end - time.monotonic()) * 1000):
            block = os.read(self._read, 65536)
            if not block:
                break
            data += block
        os.close(self._read)
        processes.send(self._pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            # One that hangs in the driver is reaped when it ends, as any other child.
            os.waitpid(self._pid, 0 if data.endswith(b"]") else os.WNOHANG)
        found: list[Any] = read_json(data) if data.endswith(b"]") else []
        return found


def read(addresses: Mapping[str, str], folders: Sequence[str]) -> list[Any]:
    """Return the rows of the devices with these PCI addresses, and last {"cuda_driver": version}.

    This may block.

    Args:
        addresses: the addresses of the visible devices, by id; "" if unknown.
        folders: folders that may have NVML's Python module, if this process does not find it.
    """
    sys.path.extend(folders)
    gpus = nvml.read(*ASKED) or nvml.from_proc()
    users = _users()
    known = {entry: _meant(entry, address, gpus) for entry, address in addresses.items()}
    rows: list[Any] = [facts_of(entry, gpu, users) for entry, gpu in known.items() if gpu]
    return [*rows, next(({"cuda_driver": gpu.cuda} for gpu in gpus if gpu.cuda), {})]


def _meant(entry: str, address: str, gpus: Sequence[Gpu]) -> Gpu | None:
    """Return the GPU of an entry of a mask, None if uncertain.

    Without an address, as where a sandbox hides the files of the driver in /proc, a UUID or the
    beginning of one tells, or a number among GPUs of one model, which CUDA counts as NVML does.
    """
    if address:
        return next((gpu for gpu in gpus if gpu.address == address), None)
    if entry.isdigit():
        alike = len({gpu.name for gpu in gpus}) == 1
        return gpus[int(entry)] if alike and int(entry) < len(gpus) else None
    fits = [gpu for gpu in gpus if "-" in entry and (gpu.uuid or "").startswith(entry)]
    return fits[0] if len(fits) == 1 else None


def facts_of(entry: str, gpu: Gpu, users: Mapping[int, str]) -> DeviceFacts:
    """Return the facts of a device; `users` are the names of users by uid."""
    total = gpu.total or 0
    return DeviceFacts(
        id=entry,
        name=gpu.name or "",
        total=total,
        free=max(total - (gpu.used or 0), 0),
        problems=nvml.problems(gpu, [one.pid for one in gpu.processes]),
        users=tuple(_user(one.pid, users) for one in gpu.processes),
    )


def _user(pid: int, users: Mapping[int, str]) -> str:
    """Name a process and its user, who is not known outside of its container."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return f"pid {pid}"
    return f"pid {pid} ({users.get(uid, f'uid {uid}')})"


def _users() -> dict[int, str]:
    """Return the users of this machine; a directory service could be slow."""
    with suppress(OSError), open("/etc/passwd", encoding="utf-8", errors="replace") as file:
        rows = [line.split(":") for line in file]
        return {int(row[2]): row[0] for row in rows if len(row) > 3 and row[2].isdecimal()}
    return {}
