"""What a service of a node has from its run, played by a test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control.messages import Start
from dsrun.launcher.node.machine.devices import NodeDevices
from dsrun.launcher.node.service import ServiceContext

from .tasks import program_task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dsrun.launcher.node.workers.spawn import Process

START = Start(0, (0,), 1, 0, 1, "n0", 29500, 1 << 20)


def service_context(
    loop: Loop | None = None,
    send: Callable[[bytes], None] = print,
    note: Callable[[str], None] = print,
    stop: Callable[[str], None] = print,
    *,
    usable: bool = True,
    base: dict[str, str] | None = None,
    role_ports: dict[str, int] | None = None,
    specs: Any = None,
    **fields: Any,
) -> ServiceContext:
    """The context of a run whose task has these fields, as in `program_task`."""
    numbers = role_ports or {}
    setup: Any = SimpleNamespace(
        task=program_task(**{"ports": numbers} | fields),
        usable=usable,
        base={} if base is None else base,
        devices=NodeDevices({"DSRUN_ACCELERATOR": "cpu"}, {}),
        role_ports=numbers,
    )
    return ServiceContext(loop or Loop(), setup, specs, send, note, stop)


def group(
    *workers: Process,
    running: Callable[[], object] | None = None,
    printed: Callable[[int], int] = int,
) -> Any:
    """A group of workers that have been started, those that run as told."""
    found: Sequence[Process] = [*workers]
    return SimpleNamespace(processes=found, running=running or (lambda: found), printed=printed)
