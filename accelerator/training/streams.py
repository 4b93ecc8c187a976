"""Streams, events and graphs of a device, and ranges that a profiler shows."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from torch.profiler import record_function

from ..vendors.base import Accelerator
from .runtime import Runtime, at


class _Ranges(threading.local):
    """The ranges that a thread is in, the innermost last."""

    def __init__(self) -> None:
        self.open: list[ExitStack] = []


class Streams(Runtime):
    """Order and time on a device."""

    supports_nvtx_domain = False

    def __init__(self, vendor: Accelerator) -> None:
        super().__init__(vendor)
        self._ranges = _Ranges()

    @property
    def Stream(self) -> Any:
        """The class of streams, as in `Stream(priority=-1)`."""
        return self._op("Stream")

    @property
    def Event(self) -> Any:
        """The class of events, as in `Event(enable_timing=True)`; `elapsed_time` is in ms."""
        return self._op("Event")

    def stream(self, stream: Any) -> AbstractContextManager[Any]:
        """A context in which operations go to a stream; None leaves the current one."""
        context: AbstractContextManager[Any] = self._op("stream")(stream)
        return context

    def current_stream(self, device_index: int | None = None) -> Any:
        """The stream that operations go to now."""
        return self._op("current_stream")(*at(device_index))

    def default_stream(self, device_index: int | None = None) -> Any:
        """The stream that is there from the start; on XPU, which knows none, the current one."""
        return self._op("default_stream", "current_stream")(*at(device_index))

    def create_graph(self) -> Any:
        """An empty graph. Vendors name the class after the device type: CUDAGraph, XPUGraph."""
        return self._op(f"{self._type.upper()}Graph")()

    def capture_to_graph(
        self, graph: Any, pool: Any = None, stream: Any = None
    ) -> AbstractContextManager[Any]:
        """A context whose operations a graph keeps."""
        context: AbstractContextManager[Any] = self._op("graph")(graph, pool=pool, stream=stream)
        return context

    def replay_graph(self, graph: Any) -> None:
        """Do a graph's operations again, on the same tensors."""
        graph.replay()

    def is_current_stream_capturing(self) -> bool:
        """Whether operations are kept in a graph now; never where there are no graphs."""
        return bool(getattr(self._module, "is_current_stream_capturing", bool)())

    def range_push(self, msg: str, domain: str | None = None, category: str | None = None) -> None:
        """Begin a range: NVTX's where torch has it, else one that torch's own profiler shows.

        `domain` and `category` are taken and not used: torch's NVTX has none.
        """
        if hasattr(self._module, "nvtx"):
            self._module.nvtx.range_push(msg)
            return
        self._ranges.open.append(ExitStack())
        self._ranges.open[-1].enter_context(record_function(msg))

    def range_pop(self, domain: str | None = None) -> None:
        """End the innermost range of this thread; nothing happens outside of all ranges."""
        if hasattr(self._module, "nvtx"):
            self._module.nvtx.range_pop()
        elif self._ranges.open:
            self._ranges.open.pop().close()

    def lazy_call(self, callback: Callable[[], Any]) -> None:
        """Call once the device has been initialised: now, if it is or needs no initialising."""
        getattr(self._module, "_lazy_call", lambda late: late())(callback)
