"""Devices other than NVIDIA's."""

from __future__ import annotations

import pytest

from .test_corpus import answer
from .test_runner_engine_rows import explained


@pytest.mark.parametrize(
    ("kind", "text", "named"),
    [
        (
            "node",
            "RuntimeError: Bad StatusOr access: UNKNOWN: TPU initialization failed: open(/dev/"
            "accel0): Operation not permitted",
            "/dev/accel0",
        ),
        (
            "node",
            "RuntimeError: TPU initialization failed: open(/dev/vfio/1): Device or resource busy",
            "/dev/vfio/1",
        ),
        (
            "node",
            "RuntimeError: Neuron runtime cannot be initialized; cannot determine the number of"
            " available NeuronCores",
            "NeuronCores",
        ),
        ("node", "RuntimeError: Unable to open /dev/kfd read-write: Permission denied", "/dev/kfd"),
        ("node", "RuntimeError: synStatus=8 [Device not found] Device acquire failed.", "found"),
        ("script", "RuntimeError: Invalid HABANA_VISIBLE_MODULES=5. IDs are 0 to 0.", "MODULES=5"),
        (
            "script",
            "RuntimeError: The device index is out of range. It must be in [0, 2), but got 4.",
            "got 4",
        ),
        (
            "network",
            "RuntimeError: OPS function error: HcclAllreduce, error code is 6\nEI0006: Getting"
            " socket times out. Reason: Remote Rank did not send the data in time.",
            "EI0006",
        ),
        (
            "memory",
            "RuntimeError: Failed to allocate 16777216 bytes of DEVICE memory",
            "16777216",
        ),
    ],
)
def test_an_exception(kind: str, text: str, named: str) -> None:
    found, sentence = explained(text)
    assert found == kind
    assert named in sentence


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("node", "TDRV:tdrv_get_dev_info  No neuron device available"),
        ("node", "NRT:nrt_init  Logical Neuron Core(s) not available - Requested:8 Available:0"),
        ("memory", "TDRV:dmem_alloc_internal  Failed to alloc DEVICE memory: 16777216"),
    ],
)
def test_a_line_of_the_neuron_runtime(kind: str, line: str) -> None:
    assert answer(f"2026-Feb-04 07:07:29.0082 1121:1121 ERROR  {line}\n", {})[0] == kind
