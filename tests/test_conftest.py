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


DROPS = """
import gc, socket

def test_that_fails_with_a_socket():
    left = socket.socketpair()
    assert left is None

def test_after_it():
    gc.collect()
"""


def pytest(folder: Path, tests: str, *options: str) -> str:
    """What pytest prints of these tests, with our conftest."""
    file = folder / "test_x.py"
    file.write_text(tests)
    ours = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "/dev/null", *options]
    command = [sys.executable, "-m", "pytest", "-q", *ours, f"--rootdir={folder}", str(file)]
    return subprocess.run(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=False
    ).stdout


def test_a_process_that_a_test_leaves_is_its_own_fault_and_nobody_elses(tmp_path: Path) -> None:
    shown = pytest(tmp_path, TESTS)
    assert "2 passed, 1 error" in shown
    assert re.findall("^ERROR .*::(\\w+)", shown, re.MULTILINE) == ["test_that_leaves_something"]
    assert "kill -STOP" in shown.partition("processes that the test has left running")[2]


def test_what_a_failed_test_drops_does_not_fail_the_next(tmp_path: Path) -> None:
    shown = pytest(tmp_path, DROPS, "-W", "error")
    assert set(re.findall("^(?:ERROR|FAILED) .*::(\\w+)", shown, re.MULTILINE)) == {
        "test_that_fails_with_a_socket"
    }


LATE = """
import sys
from tests.support.late import Late

late = Late("wave")

def test_that_does_not_use_it():
    assert "wave" not in sys.modules

def test_that_does():
    assert late.open
"""


def test_a_module_is_imported_by_the_first_test_that_uses_it(tmp_path: Path) -> None:
    """Torch in each process that runs tests would make all that they fork slow."""
    assert "2 passed" in pytest(tmp_path, LATE)
