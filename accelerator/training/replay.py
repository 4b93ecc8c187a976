"""Graphs of CPU operations: recorded as they run, and replayed on their tensors.

Unlike a device's graph, whose capture computes nothing, this one also computes during capture.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Capturing(threading.local):
    """A flag: whether a thread's operations are recorded."""

    now = False


_capturing = _Capturing()


class CPUGraph:
    """Operations with their tensors, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[[], Any], Any]] = []

    def replay(self) -> None:
        """Run the operations again; each result is written to its first place."""
        with torch.no_grad():
            for call, result in self.calls:
                _overwrite(result, call())

    def reset(self) -> None:
        """Forget the operations."""
        self.calls.clear()


@contextmanager
def graph(cpu_graph: CPUGraph, pool: object = None, stream: object = None) -> Iterator[None]:
    """Record the operations of this context in a graph, in place of its earlier ones."""
    cpu_graph.reset()
    _capturing.now = True
    try:
        with _Recorder(cpu_graph):
            yield
    finally:
        _capturing.now = False


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records every operation below autograd, including a backward pass."""

    def __init__(self, cpu_graph: CPUGraph) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._graph = cpu_graph

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        def call() -> Any:
            return func(*args, **(kwargs or {}))

        result = call()
        self._graph.calls.append((call, result))
        return result


def is_current_stream_capturing() -> bool:
    """Return whether this thread's operations are recorded."""
    return _capturing.now


def _overwrite(old: Any, new: Any) -> None:
    """Copy new results into the old ones; views, and tensors changed in place, need no copy."""
    for before, after in zip(tree_leaves(old), tree_leaves(new), strict=True):
        if isinstance(before, torch.Tensor) and before.data_ptr() != after.data_ptr():
            before.copy_(after)
