"""Makes a node's HELLO: facts about this machine, and its problems."""

from __future__ import annotations

import sys

from .. import __version__
from ..common import system
from ..common.network import own_addresses
from ..control.messages import Hello

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..control.facts import Facts
    from ..control.messages import Task
    from .devices import Devices


def machine() -> str:
    """Return what identifies this machine under all its names: boot and network namespace."""
    try:
        with system.open_file("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            boot = file.read().strip()
        return f"{boot}/{system.stat('/proc/self/ns/net').st_ino}/{system.uname().nodename}"
    except OSError:
        return system.uname().nodename


def hello(
    task: Task,
    devices: Devices,
    slots: int,
    port: int | None,
    problems: Sequence[str],
    log_dir: str,
    facts: Facts | None = None,
) -> Hello:
    """Return this node's HELLO."""
    return Hello(
        dsrun=__version__,
        hostname=system.uname().nodename,
        machine=machine(),
        python=f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}",
        accelerator=devices.kind,
        devices=devices.visible,
        slots=slots,
        port=port,
        addresses=own_addresses() if _needs_addresses(task) else (),
        problems=tuple(problem for problem in problems if problem),
        clock=system.monotonic(),
        log_dir=log_dir,
        pids=(system.getppid(), system.getpid()),
        facts=facts,
    )


def _needs_addresses(task: Task) -> bool:
    """Return whether others may connect to this node, or its links are to be told apart."""
    return task.has_rounds or task.port is not None or task.watch.slow
