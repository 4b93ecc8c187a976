"""`--report_file r.html`: a picture of a real job."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

from .support.checkout import BIN
from .support.limits import HANG
from .support.pictures import embedded

if TYPE_CHECKING:
    from pathlib import Path

FAILS = """\
import os, time
print("hello from", os.environ["RANK"], flush=True)
if os.environ["RANK"] == "1":
    raise SystemExit(3)
time.sleep(600)
"""


def picture(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Run a job; return its exit code, and the data of its picture."""
    path = folder / "r.html"
    command = [
        sys.executable,
        str(BIN / "dsrun"),
        "--accelerator",
        "cpu",
        "--report_file",
        str(path),
    ]
    ran = subprocess.run(
        [*command, *words], cwd=folder, capture_output=True, timeout=HANG, check=False
    )
    return ran.returncode, embedded(path.read_text())


def test_it_has_each_rank_its_end_and_its_last_output(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(FAILS)
    code, data = picture(tmp_path, "--num_gpus", "3", "x.py", "--hf-token", "geheim")
    assert (code, data["report"]["exit_code"], data["hosts"]) == (3, 3, ["localhost"])
    ends = {rank: state for rank, _, _, _, _, state, _ in data["spans"]}
    assert ends == {0: "stopped", 1: "failed", 2: "stopped"}
    assert [mark[2] for mark in data["marks"]] == ["rank 1 failed: exit code 3"]
    assert data["tails"]["1"] == [["", "hello from 1\n"]]
    assert data["title"].startswith("dsrun: rank 1 (localhost, local rank 1, pid ")
    assert data["about"].keys() == {"program", "command line", "started", "dsrun"}
    assert data["about"]["command line"] == "x.py --hf-token ***"


def test_a_job_that_cannot_start_has_one_too(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(FAILS)
    code, data = picture(tmp_path, "--num_gpus", "1", "--health_command", "exit 1", "x.py")
    assert code == data["report"]["exit_code"] != 0
    assert (data["spans"], data["hosts"]) == ([], [])
    assert data["about"]["command line"] == "x.py"
