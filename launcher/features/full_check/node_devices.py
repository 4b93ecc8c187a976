"""The program "device": tests of this node's cores, memory, disks and devices."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from ...common.errors import reason
from ...control import frames, messages
from ...node.machine import devices
from . import node_cpu as cpu
from . import node_disk as disk
from .measurements import Broken, Measure, Measurements
from .node_answers import serve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

GPU = os.path.join(os.path.dirname(__file__), "gpu.py")
"""The program that the workers' Python runs."""

TORCH_KINDS = {"cuda", "rocm"}
"""Accelerators that torch has as `cuda`."""

LONGEST = 100.0
"""Seconds for the devices to answer, torch's import among them."""


def main(_: Sequence[str]) -> int:
    """Answer `Measure` until the standard input ends."""
    return serve({"measure": (Measure, measure)})


def measure(request: Measure) -> Measurements:
    """Make the tests one after another."""
    return _joined(TESTS[name](request) for name in request.tests)


def _joined(parts: Iterable[Measurements]) -> Measurements:
    parts = tuple(parts)
    rows = tuple(row for part in parts for row in part.rows)
    return Measurements(rows, tuple(one for part in parts for one in part.broken))


def _disk(request: Measure) -> Measurements:
    folders = {"work": request.workdir, "temp": tempfile.gettempdir()}
    return _joined(disk.disk(role, folder) for role, folder in folders.items() if folder)


def _gpu(request: Measure) -> Measurements:
    """Test the devices, if torch has them: in a process of the workers' Python, one by one."""
    if devices.NodeDevices(os.environ, {}).kind not in TORCH_KINDS:
        return Measurements((), ())
    return of_python([request.python or sys.executable, GPU, str(request.seconds / 2)])


def of_python(command: Sequence[str], seconds: float = LONGEST) -> Measurements:
    """Return the measurements that a program prints as its last line."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
        if done.returncode:
            last = (done.stderr.decode(errors="replace").splitlines() or ["no output"])[-1]
            return _failed(f"exit code {done.returncode}: {last}")
        return messages.unpack(Measurements, (done.stdout.splitlines() or [b""])[-1])
    except subprocess.TimeoutExpired:
        return _failed(f"no answer in {seconds:g} s")
    except frames.BadFrame as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(reason(error))


def _failed(text: str) -> Measurements:
    return Measurements((), (Broken("devices", text),))


TESTS: dict[str, Callable[[Measure], Measurements]] = {
    "cpu": lambda request: cpu.compute(request.seconds),
    "memory": lambda request: cpu.memory(request.seconds),
    "disk": _disk,
    "device": _gpu,
}
"""The tests that a request may name."""
