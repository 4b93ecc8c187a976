"""Changes that an import may make to its process, and their reversal before it becomes a worker.

A fork inherits all these properties from its parent, according to fork(2), signal(7),
credentials(7) and sched(7). `node_environment` changes variables. Only the standard library is
used: the Python of the workers runs this, too.
"""

from __future__ import annotations

import _locale
import ctypes
import faulthandler
import os
import resource
import signal
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_GET_DUMPABLE = 3
_SET_DUMPABLE = 4

_LIMITS = sorted({value for name, value in vars(resource).items() if name.startswith("RLIMIT_")})

_CHANGEABLE = sorted({*signal.valid_signals()} - {signal.SIGKILL, signal.SIGSTOP})

_libc = ctypes.CDLL(None)


def _limits() -> list[tuple[int, int]]:
    return [resource.getrlimit(number) for number in _LIMITS]


def _set_limits(wanted: list[tuple[int, int]]) -> None:
    for number, limits in zip(_LIMITS, wanted, strict=True):
        if resource.getrlimit(number) != limits:
            resource.setrlimit(number, limits)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _scheduling() -> tuple[int, int]:
    return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority


def _handlers() -> list[tuple[object, bool, bool]]:
    """Return Python's and the kernel's reaction to each signal (proc(5), SigCgt, SigIgn)."""
    masks = dict.fromkeys(("SigCgt", "SigIgn"), 0)
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            field, _, value = line.partition(":")
            if field in masks:
                masks[field] = int(value, 16)
    caught, ignored = masks.values()
    return [
        (signal.getsignal(one), bool(caught >> one - 1 & 1), bool(ignored >> one - 1 & 1))
        for one in _CHANGEABLE
    ]


def _set_handlers(wanted: list[tuple[object, bool, bool]]) -> None:
    """Restore handlers that have changed; `faulthandler` removes its own."""
    for number, before, now in zip(_CHANGEABLE, wanted, _handlers(), strict=True):
        if before == now:
            continue
        with suppress(RuntimeError, ValueError):  # it cannot be registered there
            faulthandler.unregister(number)
        handler: Any = signal.SIG_DFL if before[0] is None else before[0]
        signal.signal(number, handler)


def _set_faulthandler(enabled: bool) -> None:
    if not enabled:
        faulthandler.disable()


def _own(name: str) -> tuple[Callable[[], str], Callable[[str], None]]:
    """Return functions that read and write a file in /proc/self."""
    path = f"/proc/self/{name}"

    def read() -> str:
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip()
        except OSError:  # some kernels hide it
            return ""

    def write(text: str) -> None:
        with open(path, "w", encoding="ascii") as file:
            file.write(f"0x{text}" if name == "coredump_filter" else text)

    return read, write


_PARTS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "whether it is dumpable": (
        lambda: _libc.prctl(_GET_DUMPABLE, 0, 0, 0, 0),
        lambda value: _libc.prctl(_SET_DUMPABLE, value, 0, 0, 0),
    ),
    "its CPUs": (lambda: os.sched_getaffinity(0), lambda cpus: os.sched_setaffinity(0, cpus)),
    "its limits": (_limits, _set_limits),
    "its umask": (_umask, os.umask),
    "its scheduling": (
        _scheduling,
        lambda value: os.sched_setscheduler(0, value[0], os.sched_param(value[1])),
    ),
    "its priority": (
        lambda: os.getpriority(os.PRIO_PROCESS, 0),
        lambda value: os.setpriority(os.PRIO_PROCESS, 0, value),
    ),
    "faulthandler": (faulthandler.is_enabled, _set_faulthandler),
    "its signal handlers": (_handlers, _set_handlers),
    "its blocked signals": (
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda mask: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
    ),
    "its locale": (
        lambda: _locale.setlocale(_locale.LC_ALL, None),
        lambda name: _locale.setlocale(_locale.LC_ALL, name),
    ),
    "its OOM score": _own("oom_score_adj"),
    "its core dumps": _own("coredump_filter"),
}
"""Functions that read and set each property. The order sets the working folder."""


class ProcessSurroundings:
    """The properties of the process when this object was made.

    Attributes:
        cpus: the CPUs that it might use.
    """

    def __init__(self) -> None:
        self._values = {name: read() for name, (read, _) in _PARTS.items()}
        self.cpus: set[int] = self._values["its CPUs"]

    def restore(self) -> str:
        """Undo every change since then; return the first that is not possible, and why, or ""."""
        signal.set_wakeup_fd(-1)
        problems = [self._restore(name) for name in _PARTS]
        return next(filter(None, problems), "")

    def _restore(self, name: str) -> str:
        read, change = _PARTS[name]
        wanted = self._values[name]
        try:
            if read() != wanted:
                change(wanted)
        except (OSError, ValueError, _locale.Error) as error:  # type: ignore[attr-defined]
            return f"{name} cannot be restored: {error}"
        return "" if read() == wanted else f"{name} cannot be restored"
