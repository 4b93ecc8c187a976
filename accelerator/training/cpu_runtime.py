"""What torch.cuda has, for the CPU: it works at once, in order, in the memory of the host.

`torch.cpu` has the first few of these names and does nothing in most of them.
"""

import threading
import time
from contextlib import AbstractContextManager, nullcontext

import psutil  # type: ignore[import-untyped]
import torch

from .replay import CPUGraph, graph, is_current_stream_capturing

__all__ = ["CPUGraph", "graph", "is_current_stream_capturing"]

manual_seed = torch.random.manual_seed
manual_seed_all = torch.random.manual_seed
initial_seed = torch.random.initial_seed
default_generators = (torch.default_generator,)


def is_available() -> bool:
    """Say that there is a CPU."""
    return True


def device_count() -> int:
    """Say that it is one, as torch does."""
    return 1


def current_device() -> int:
    """Return the only index."""
    return 0


def set_device(device: int) -> None:
    """Keep working on the CPU: ranks share it, and each may name its own index."""


def synchronize(device: int = 0) -> None:
    """Return: all is done."""


def get_rng_state(device: int = 0) -> torch.Tensor:
    """Return torch's state."""
    return torch.random.get_rng_state()


def set_rng_state(new_state: torch.Tensor, device: int = 0) -> None:
    """Set torch's state."""
    torch.random.set_rng_state(new_state)


class Event:
    """A moment, by the host's clock; what was asked for before it is done by then."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self._timing = enable_timing
        self._at: int | None = None

    def record(self, stream: "Stream | None" = None) -> None:
        """Take the time."""
        self._at = time.perf_counter_ns()

    def query(self) -> bool:
        """Say that it is past."""
        return True

    def synchronize(self) -> None:
        """Return: it is past."""

    def wait(self, stream: "Stream | None" = None) -> None:
        """Return: it is past."""

    def elapsed_time(self, end_event: "Event") -> float:
        """Return the milliseconds to another event.

        Raises:
            RuntimeError: one was made without `enable_timing`, or not recorded.
        """
        if not (self._timing and end_event._timing):
            raise RuntimeError("both events need enable_timing=True")
        if self._at is None or end_event._at is None:
            raise RuntimeError("both events must be recorded first")
        return (end_event._at - self._at) / 1e6


class Stream:
    """A name for the order that all operations are in; `with` makes it the thread's current one."""

    def __init__(self, device: object = None, priority: int = 0) -> None:
        self.priority = priority

    def __enter__(self) -> "Stream":
        _thread.streams.append(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        _thread.streams.pop()

    def query(self) -> bool:
        """Say that all is done."""
        return True

    def synchronize(self) -> None:
        """Return: all is done."""

    def wait_stream(self, stream: "Stream") -> None:
        """Return: all is done."""

    def wait_event(self, event: Event) -> None:
        """Return: it is past."""

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
    """Return a context in which a stream is the current one; None changes nothing."""
    return nullcontext() if stream is None else stream


def current_stream(device: int = 0) -> Stream:
    """Return the thread's stream."""
    return _thread.streams[-1]


def default_stream(device: int = 0) -> Stream:
    """Return the one that is there from the start."""
    return _DEFAULT


def empty_cache() -> None:
    """Do nothing: freed memory is not kept."""


def memory_allocated(device: int = 0) -> int:
    """Return what the process has in memory, in bytes, as exactly as the kernel keeps count."""
    return _status()["VmRSS"]


def max_memory_allocated(device: int = 0) -> int:
    """Return the most it had, in bytes."""
    sizes = _status()
    # The kernel looks for a new maximum now and then only.
    return max(sizes["VmHWM"], sizes["VmRSS"])


memory_reserved = memory_allocated
max_memory_reserved = max_memory_allocated


def memory_stats(device: int = 0) -> dict[str, int]:
    """Return both under torch's names."""
    numbers = {"current": memory_allocated(), "peak": max_memory_allocated()}
    kinds = ("allocated_bytes", "reserved_bytes")
    return {f"{kind}.all.{when}": number for kind in kinds for when, number in numbers.items()}


def reset_peak_memory_stats(device: int = 0) -> None:
    """Have the kernel count the most from here (proc(5), /proc/pid/clear_refs)."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def mem_get_info(device: int = 0) -> tuple[int, int]:
    """Return what the machine has free, and in all, in bytes."""
    memory = psutil.virtual_memory()
    return memory.available, memory.total


def _status() -> dict[str, int]:
    """The sizes in /proc/self/status, which has KiB, in bytes."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        words = [line.split() for line in file if line.startswith("Vm")]
    return {name.rstrip(":"): int(number) * 1024 for name, number, _ in words}
