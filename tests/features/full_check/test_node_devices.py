"""The program that tests a node: which tests it makes, and what it makes of other programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.full_check import node_devices as devices
from dsrun.launcher.features.full_check.measurements import Measure

from ...support.limits import HANG

if TYPE_CHECKING:
    from pathlib import Path


def test_the_tests_that_are_asked_for_are_made(tmp_path: Path) -> None:
    found = devices.measure(Measure(("memory", "disk", "cpu"), 0.01, str(tmp_path), ""))
    tests = [(row.test, row.part) for row in found.rows]
    assert tests[:1] == [("memory", "cores")]
    assert tests[1:5] == [("write", "work"), ("read", "work"), ("write", "temp"), ("read", "temp")]
    assert tests[5:] == [("compute", "cores"), ("running", "cores"), ("quota", "cores")]


def test_without_a_working_folder_only_the_temporary_one_is_tested() -> None:
    found = devices.measure(Measure(("disk",), 0.01, "", ""))
    assert {row.part for row in found.rows} == {"temp"}


def test_without_gpus_there_is_no_test_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSRUN_ACCELERATOR", "cpu")
    found = devices.measure(Measure(("device",), 0.01, "", "/no/such/python"))
    assert (found.rows, found.broken) == ((), ())


def test_with_gpus_the_workers_python_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSRUN_ACCELERATOR", "cuda")
    found = devices.measure(Measure(("device",), 0.01, "", "/no/such/python"))
    ((part, text),) = found.broken
    assert part == "devices"
    assert text == "no such file or directory"


def printing(text: str, code: int = 0) -> list[str]:
    return [sys.executable, "-S", "-c", f"print({text!r}); raise SystemExit({code})"]


def test_the_last_line_of_a_program_counts() -> None:
    row = ["device compute", "device 0", 5.0, "H100"]
    line = json.dumps({"rows": [row], "broken": []})
    found = devices.of_python(printing(f"a warning\n{line}"))
    assert [list(one) for one in found.rows] == [row]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (printing("", 3), "exit code 3: no output"),
        ([sys.executable, "-S", "-c", "raise OSError('gone')"], "exit code 1: OSError: gone"),
        (printing("nonsense"), "not JSON"),
        (printing('{"rows": [[1]], "broken": []}'), "rows[0]: expected"),
        ([sys.executable, "-S", "-c", "pass"], "not JSON"),
        ([sys.executable, "-S", "-c", "import signal; signal.pause()"], "no answer in 1 s"),
    ],
)
def test_a_program_that_fails_is_reported(command: list[str], text: str) -> None:
    seconds = 1.0 if text.startswith("no answer") else HANG
    ((part, why),) = devices.of_python(command, seconds=seconds).broken
    assert part == "devices"
    assert text in why
