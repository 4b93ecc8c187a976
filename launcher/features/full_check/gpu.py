"""Tests each device with torch: the speed of computing and copying, and the results.

The workers' Python runs this file, so it imports nothing of dsrun. Its arguments are the seconds of
each test and, for some of the GPUs only, the names of torch's devices. It prints one line of JSON,
the fields of `measurements.Measurements`.
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SIDE = {"cuda": 8192, "cpu": 256}
"""Rows and columns of the matrices that are multiplied, by kind of device."""

COPIED = {"cuda": 1 << 28, "cpu": 1 << 22}
"""Bytes that are copied at a time."""

CHECKED, ROWS = 2048, 16
"""The largest size of a matrix for a check of products, and the number of rows that are checked."""


def main() -> int:
    """Test the devices one after another."""
    try:
        import torch
    except ImportError as error:
        print(json.dumps({"rows": [], "broken": [["torch", f"cannot be imported: {error}"]]}))
        return 0
    seconds, names = float(sys.argv[1]), sys.argv[2:]
    names = names or [f"cuda:{one}" for one in range(torch.cuda.device_count())]
    found = [_tested(torch, at, name, seconds) for at, name in enumerate(names)]
    rows = [row for one, _ in found for row in one]
    broken = [one for _, some in found for one in some]
    print(json.dumps({"rows": rows, "broken": broken}))
    return 0


def _tested(torch: Any, at: int, name: str, seconds: float) -> tuple[list[Any], list[Any]]:
    """Return the rows of one device, and its defects: one must not hide the others."""
    part = f"device {at}"
    try:
        device = torch.device(name)
        values = {**_compute(torch, device, seconds), **_copies(torch, device, seconds)}
        title = torch.cuda.get_device_name(device) if device.type == "cuda" else name
        rows = [[f"device {test}", part, value, title] for test, value in values.items()]
        wrong = _wrong(torch, device)
    except Exception as error:
        text = (str(error) or type(error).__name__).splitlines()[0]
        return [], [[part, text]]
    text = f"{wrong} of a matrix product's elements are wrong"
    return rows, [[part, text]] if wrong else []


def _compute(torch: Any, device: Any, seconds: float) -> dict[str, float]:
    """Return TFLOP/s of a product of matrices in the type that training uses."""
    side = SIDE[device.type]
    one, other = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    each = _timed(torch, device, seconds, lambda: one @ other)
    return {"compute": 2 * side**3 / each / 1e12}


def _copies(torch: Any, device: Any, seconds: float) -> dict[str, float]:
    """Return GB/s within the device's memory, to the device and from it."""
    pinned = device.type == "cuda"
    here = torch.zeros(COPIED[device.type], dtype=torch.uint8, pin_memory=pinned)
    there, target = here.to(device), torch.empty_like(here, device=device)
    copies: dict[str, Callable[[], object]] = {
        "memory": lambda: target.copy_(there),
        "copy in": lambda: there.copy_(here, non_blocking=True),
        "copy out": lambda: here.copy_(there, non_blocking=True),
    }
    return {
        name: len(here) / _timed(torch, device, seconds, copy) / 1e9
        for name, copy in copies.items()
    }


def _timed(torch: Any, device: Any, seconds: float, step: Callable[[], object]) -> float:
    """Return the seconds of a step, the best of five series of equal length."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda _: None
    once = _series(step, 2, wait, device)  # the first call prepares kernels and clocks
    times = max(1, int(seconds / 5 / max(once, 1e-6)))
    return min(_series(step, times, wait, device) for _ in range(5))


def _series(
    step: Callable[[], object], times: int, wait: Callable[[Any], object], on: Any
) -> float:
    wait(on)
    start = time.perf_counter()
    for _ in range(times):
        step()
    wait(on)
    return (time.perf_counter() - start) / times


def _wrong(torch: Any, device: Any) -> int:
    """Return the number of wrong elements in a product of small integers."""
    side = min(SIDE[device.type], CHECKED)
    generator = torch.Generator().manual_seed(1)
    one, other = (
        torch.randint(-2, 3, (side, side), generator=generator, dtype=torch.float32)
        for _ in range(2)
    )
    exact = one[:ROWS] @ other  # integers below 2^24 have no rounding in float32
    product = (one.to(device) @ other.to(device))[:ROWS].cpu()
    return int((product != exact).sum())


if __name__ == "__main__":
    # The modules beside this file must not hide others.
    own = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [one for one in sys.path if os.path.realpath(one) != own]
    sys.exit(main())
