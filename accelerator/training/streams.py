"""Streams, events and graphs of a device, and ranges that a profiler shows."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from torch.profiler import record_function

from ..vendors import Accelerator
from .runtime import Runtime, at


class _Ranges(threading.local):
    """A thread's open ranges, the innermost last."""

    def __init__(self) -> None:
        self.open: list[ExitStack] = []


class DeviceStreams(Runtime):
    """Streams, events, graphs and ranges."""

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
        """Return a context in which operations go to a stream; None keeps the current one."""
        context: AbstractContextManager[Any] = self._op("stream")(stream)
        return context

    def current_stream(self, device_index: int | None = None) -> Any:
        """Return the stream to which operations go now."""
        return self._op("current_stream")(*at(device_index))

    def default_stream(self, device_index: int | None = None) -> Any:
        """Return the default stream; on XPU, which has none, the current one."""
        return self._op("default_stream", "current_stream")(*at(device_index))

    def create_graph(self) -> Any:
        """Return an empty graph. The class is named after the device type: CUDAGraph, XPUGraph."""
        return self._op(f"{self._type.upper()}Graph")()

    def capture_to_graph(
        self, graph: Any, pool: Any = None, stream: Any = None
    ) -> AbstractContextManager[Any]:
        """Return a context whose operations are recorded in a graph."""
        context: AbstractContextManager[Any] = self._op("graph")(graph, pool=pool, stream=stream)
        return context

    def replay_graph(self, graph: Any) -> None:
        """Run a graph's operations again on its tensors."""
        graph.replay()

    def is_current_stream_capturing(self) -> bool:
        """Return whether operations are recorded in a graph now; False without graphs."""
        return bool(getattr(self._module, "is_current_stream_capturing", bool)())

    def range_push(self, msg: str, domain: str | None = None, category: str | None = None) -> None:
        """Begin a range: NVTX's if torch has it, else one that torch's own profiler shows.

        `domain` and `category` have no effect: torch's NVTX has neither.
        """
        if hasattr(self._module, "nvtx"):
            self._module.nvtx.range_push(msg)
            return
        self._ranges.open.append(ExitStack())
        self._ranges.open[-1].enter_context(record_function(msg))

    def range_pop(self, domain: str | None = None) -> None:
        """End the innermost range of this thread, if any."""
        if hasattr(self._module, "nvtx"):
            self._module.nvtx.range_pop()
        elif self._ranges.open:
            self._ranges.open.pop().close()

    def lazy_call(self, callback: Callable[[], Any]) -> None:
        """Call a function once the device is initialised: now, if that is done or not needed."""
        getattr(self._module, "_lazy_call", lambda late: late())(callback)
