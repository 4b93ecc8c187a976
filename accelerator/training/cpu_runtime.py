"""The functions of torch.cuda, for the CPU: operations run at once, in order, in host memory.

`torch.cpu` has only a few of these functions, and most of them do nothing.
"""

import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext

import torch

from .replay import CPUGraph, graph, is_current_stream_capturing

__all__ = ["CPUGraph", "graph", "is_current_stream_capturing"]

manual_seed = torch.random.manual_seed
manual_seed_all = torch.random.manual_seed
initial_seed = torch.random.initial_seed
default_generators = (torch.default_generator,)


def is_available() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1, as torch does."""
    return 1


def current_device() -> int:
    """Return 0, the only index."""
    return 0


def set_device(device: int) -> None:
    """Do nothing: ranks share the CPU, and each may pass its own index."""


def synchronize(device: int = 0) -> None:
    """Do nothing: all operations have ended."""


def get_rng_state(device: int = 0) -> torch.Tensor:
    """Return the state of torch's random numbers."""
    return torch.random.get_rng_state()


def set_rng_state(new_state: torch.Tensor, device: int = 0) -> None:
    """Set the state of torch's random numbers."""
    torch.random.set_rng_state(new_state)


class Event:
    """A point in time on the host's clock; operations started before it have ended."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self._timing = enable_timing
        self._at: int | None = None

    def record(self, stream: "Stream | None" = None) -> None:
        """Record the current time."""
        self._at = time.perf_counter_ns()

    def query(self) -> bool:
        """Return True: it is in the past."""
        return True

    def synchronize(self) -> None:
        """Do nothing: it is in the past."""

    def wait(self, stream: "Stream | None" = None) -> None:
        """Do nothing: it is in the past."""

    def elapsed_time(self, end_event: "Event") -> float:
        """Return the milliseconds until another event.

        Raises:
            RuntimeError: an event has no `enable_timing`, or was not recorded.
        """
        if not (self._timing and end_event._timing):
            raise RuntimeError("both events need enable_timing=True")
        if self._at is None or end_event._at is None:
            raise RuntimeError("both events must be recorded first")
        return (end_event._at - self._at) / 1e6


class Stream:
    """A stream; all share one order of operations. `with` makes it the thread's current one."""

    def __init__(self, device: object = None, priority: int = 0) -> None:
        self.priority = priority

    def __enter__(self) -> "Stream":
        _thread.streams.append(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        _thread.streams.pop()

    def query(self) -> bool:
        """Return True: all operations have ended."""
        return True

    def synchronize(self) -> None:
        """Do nothing: all operations have ended."""

    def wait_stream(self, stream: "Stream") -> None:
        """Do nothing: all operations have ended."""

    def wait_event(self, event: Event) -> None:
        """Do nothing: it is in the past."""

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, or a new one."""
        event = event or Event()
        event.record(self)
        return event


_DEFAULT = Stream()


class _Thread(threading.local):
    """The streams that a thread has entered, the current one last."""

    def __init__(self) -> None:
        self.streams = [_DEFAULT]


_thread = _Thread()


def stream(stream: Stream | None) -> AbstractContextManager[Stream | None]:
    """Return a context that makes a stream the current one; None changes nothing."""
    return nullcontext() if stream is None else stream


def current_stream(device: int = 0) -> Stream:
    """Return the thread's current stream."""
    return _thread.streams[-1]


def default_stream(device: int = 0) -> Stream:
    """Return the default stream."""
    return _DEFAULT


def empty_cache() -> None:
    """Do nothing: freed memory is not cached."""


def memory_allocated(device: int = 0) -> int:
    """Return the process's resident memory in bytes, as exactly as the kernel counts it."""
    return _status()["VmRSS"]


def max_memory_allocated(device: int = 0) -> int:
    """Return the peak of the resident memory in bytes."""
    sizes = _status()
    # The kernel updates the peak only now and then.
    return max(sizes["VmHWM"], sizes["VmRSS"])


memory_reserved = memory_allocated
max_memory_reserved = max_memory_allocated


def memory_stats(device: int = 0) -> dict[str, int]:
    """Return the current and the peak memory under torch's names."""
    numbers = {"current": memory_allocated(), "peak": max_memory_allocated()}
    kinds = ("allocated_bytes", "reserved_bytes")
    return {f"{kind}.all.{when}": number for kind in kinds for when, number in numbers.items()}


def reset_peak_memory_stats(device: int = 0) -> None:
    """Make the kernel count the peak from now on (proc(5), /proc/pid/clear_refs)."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def mem_get_info(device: int = 0) -> tuple[int, int]:
    """Return the machine's available and total memory in bytes.

    Raises:
        ModuleNotFoundError: the package psutil is missing, which reads them.
    """
    try:
        import psutil  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        text = (
            f"mem_get_info: psutil is not installed; run `{sys.executable} -m pip install psutil`"
        )
        raise ModuleNotFoundError(text, name="psutil") from None
    memory = psutil.virtual_memory()
    return memory.available, memory.total


def _status() -> dict[str, int]:
    """Return the sizes in /proc/self/status in bytes; the file has them in KiB."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        words = [line.split() for line in file if line.startswith("Vm")]
    return {name.rstrip(":"): int(number) * 1024 for name, number, _ in words}
