"""What every test is run with."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

from .support.checkout import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """
import subprocess
from pathlib import Path

def test_that_leaves_something():
    left = subprocess.Popen(["sh", "-c", "echo up; kill -STOP $$"], stdout=subprocess.PIPE)
    assert left.stdout.readline() == b"up\\n"

def test_that_has_no_children():
    assert not any((one / "children").read_text() for one in Path("/proc/self/task").iterdir())
"""


def test_a_process_that_a_test_leaves_is_its_own_fault_and_nobody_elses(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    file.write_text(TESTS)
    ours = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "/dev/null"]
    command = [sys.executable, "-m", "pytest", "-q", *ours, f"--rootdir={tmp_path}", str(file)]
    ran = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert "2 passed, 1 error" in ran.stdout
    assert re.findall("^ERROR .*::(\\w+)", ran.stdout, re.MULTILINE) == [
        "test_that_leaves_something"
    ]
    assert "kill -STOP" in ran.stdout.partition("processes that the test has left running")[2]
