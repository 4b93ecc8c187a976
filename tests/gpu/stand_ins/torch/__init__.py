"""As much of torch as the programs of `make gpu` use, on a made-up device."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import made_up

from . import cuda

__version__ = "2.11.0+cu130"
version = SimpleNamespace(cuda="13.0")
uint8 = "uint8"

if made_up.fault("thread"):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()

AFTERWARDS = """
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below\
 might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""


class OutOfMemoryError(RuntimeError):
    """As torch names it from 2.5 on."""


class Tensor:
    """Elements that are all the same, and what is wrong with them."""

    def __init__(self, count: int, value: float = 1.0, error: str = "") -> None:
        self.count, self.value, self.error = count, value, error

    def sum(self) -> Tensor:
        return Tensor(1, self.value * self.count, self.error)

    def item(self) -> float:
        if self.error and not made_up.fault("silent"):
            raise RuntimeError(f"CUDA error: {self.error}{AFTERWARDS}")
        return self.value

    def numel(self) -> int:
        return self.count

    def data_ptr(self) -> int:
        return 1

    def __matmul__(self, other: Tensor) -> Tensor:
        cuda.compute()
        return other

    def __add__(self, other: float) -> Tensor:
        return self

    def __getitem__(self, at: object) -> Tensor:
        far = isinstance(at, slice)
        return Tensor(
            1,
            error="an illegal memory access was encountered"
            if far
            else "device-side assert triggered",
        )


def ones(*sizes: int, device: str = "cpu") -> Tensor:
    cuda.use(device)
    return Tensor(sizes[0])


def tensor(values: list[int], device: str) -> Tensor:
    cuda.use(device)
    return Tensor(len(values))


def as_tensor(_: Any, device: str) -> Tensor:
    return ones(1, device=device)


def empty(count: int, dtype: str = "float32", device: str = "cpu") -> Tensor:
    cuda.use(device)
    size = count * (1 if dtype == uint8 else 4)
    held = made_up.holders()
    free = made_up.TOTAL - sum(held.values())
    if size > free and not made_up.fault("endless"):
        gib = [f"{one / (1 << 30):.2f} GiB" for one in (size, made_up.TOTAL, free)]
        others = "".join(
            f" Process {pid} has {size / (1 << 30):.2f} GiB memory in use."
            for pid, size in held.items()
        )
        raise OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {gib[0]}. GPU 0 has a total capacity of"
            f" {gib[1]} of which {gib[2]} is free.{others} Including non-PyTorch memory,"
            " this process has 0 bytes memory in use."
        )
    made_up.hold(size)
    return Tensor(count)
