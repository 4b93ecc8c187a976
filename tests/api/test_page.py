"""The examples of docs/python.md, as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ..support.checkout import CHECKOUT, IMPORTABLE
from ..support.limits import HANG

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = re.findall(
    r"^```python\n(.*?)^```",
    (CHECKOUT / "docs" / "python.md").read_text(),
    re.DOTALL | re.MULTILINE,
)

# In one write: an Output may be part of a line, and a print with -u is several writes.
TRAIN = "import os; print('loss ' + os.environ['RANK'] + chr(10), end='')\n"


def ran(folder: Path, *examples: str) -> str:
    """Run examples as one program, beside a hostfile and a script; return what is printed."""
    (folder / "hosts").write_text("localhost slots=2\n")
    (folder / "train.py").write_text(TRAIN)
    program = folder / "program.py"
    program.write_text("\n".join(examples))
    environ = {**os.environ, **IMPORTABLE, "DSRUN_ACCELERATOR": "cpu"}
    environ["XDG_STATE_HOME"] = str(folder / "state")
    done = subprocess.run(
        [sys.executable, str(program)],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.tier("ci")
def test_the_first_example_runs_and_has_ten_lines(tmp_path: Path) -> None:
    assert len([line for line in EXAMPLES[0].splitlines() if line]) <= 10
    assert ran(tmp_path, EXAMPLES[0]) == "{0: 21, 1: 21}\n"


@pytest.mark.tier("ci")
def test_the_others_run_in_one_program(tmp_path: Path) -> None:
    first = EXAMPLES[0].splitlines()[0]
    lines = ran(tmp_path, first, *EXAMPLES[1:]).splitlines()
    assert {"localhost:0| loss 0", "localhost:1| loss 1"} <= set(lines)
    assert any(re.fullmatch(r"0 \d+\.\d+ \('localhost',\)", line) for line in lines)
    assert "0 localhost ZeroDivisionError('division by zero')" in lines
    assert {"0 loss 0", "rank 1 on localhost ended with 0"} <= set(lines)
    assert "[1.0, 0.5]" in lines
    assert f"{len(TRAIN)} bytes" in lines
    assert lines[-2:] == ["0 loss 0", ""]
    assert lines[-6:-3] == [
        "{0: 10.0, 1: 10.0}",
        "{0: 5.0, 1: 5.0}",
        "[{0: 0.25}, {0: 0.2}]",
    ]
