"""The test of devices, on torch's CPU in their place, run as the workers' Python runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dsrun.launcher.control import messages
from dsrun.launcher.features.full_check.measurements import Broken, Measured, Measurements
from dsrun.launcher.features.full_check.node_devices import GPU
from dsrun.launcher.features.full_check.runner_device_tests import TESTS

from ...support.needs import need_modules


def measured(*arguments: str, python: tuple[str, ...] = (sys.executable,)) -> Measurements:
    command = [*python, GPU, "0.02", *arguments]
    done = subprocess.run(command, capture_output=True, check=True)
    return messages.unpack(Measurements, done.stdout)


@pytest.mark.tier("ci")
def test_each_device_is_measured_and_one_that_fails_hides_no_other() -> None:
    need_modules("torch")
    found = measured("nonsense", "cpu")
    rows = [Measured(*row) for row in found.rows]
    assert {row.part for row in rows} == {"device 1"}
    assert {row.test for row in rows} == {test for test in TESTS if test.startswith("device")}
    assert all(row.value > 0 for row in rows)
    ((part, text),) = [Broken(*one) for one in found.broken]
    assert part == "device 0"
    assert "nonsense" in text


def test_without_torch_there_is_a_reason() -> None:
    found = measured(python=(sys.executable, "-S"))
    assert json.dumps(found.broken) == json.dumps(
        [["torch", "cannot be imported: No module named 'torch'"]]
    )


@pytest.mark.gpu
def test_gpus_are_fast_and_right() -> None:
    found = measured()
    rows = [Measured(*row) for row in found.rows if row[1] == "device 0"]
    assert {row.test for row in rows} == {test for test in TESTS if test.startswith("device")}
    assert all(row.value > 1 for row in rows)
    assert list(found.broken) == []
