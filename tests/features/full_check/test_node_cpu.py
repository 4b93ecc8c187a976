"""The tests of cores and memory, on this machine."""

from __future__ import annotations

import threading

from dsrun.launcher.features.full_check import node_cpu as cpu


def test_cores_are_measured() -> None:
    found = cpu.compute(0.05)
    rows = {row.test: row for row in found.rows}
    assert list(rows) == ["compute", "running", "quota"]
    assert rows["compute"].value > 1
    assert 0 < rows["running"].value <= 100
    assert 0 <= rows["quota"].value <= 100
    assert {row.part for row in found.rows} == {"cores"}
    assert found.broken == ()


def test_memory_is_measured_and_no_thread_is_left() -> None:
    before = {*threading.enumerate()}
    (row,) = cpu.memory(0.05).rows
    assert (row.test, row.part) == ("memory", "cores")
    assert row.value > 1
    assert {*threading.enumerate()} <= before
