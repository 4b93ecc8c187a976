"""The command where there is nothing to try, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from shutil import which
from typing import TYPE_CHECKING

import pytest

from ..support.checkout import CHECKOUT
from ..support.limits import HANG
from ..support.needs import need
from .__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

needs_no_gpu = pytest.mark.skipif("__import__('os').path.exists('/dev/nvidia0')", reason="a GPU")


@needs_no_gpu
def test_without_a_gpu_there_is_one_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--report", str(tmp_path / "report")]) == 2
    out, err = capfd.readouterr()
    assert (out, err) == ("", "make gpu: no NVIDIA GPU here: there is no /dev/nvidia0\n")
    assert not (tmp_path / "report").exists()


@needs_no_gpu
def test_make_says_so(tmp_path: Path) -> None:
    need("make")
    argv = [which("make") or "", "gpu", f"PYTHON={sys.executable}", f"REPORT={tmp_path / 'r'}"]
    ran = subprocess.run(
        argv, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=HANG
    )
    assert ran.returncode == 2
    assert "no NVIDIA GPU here" in ran.stderr
    assert not (tmp_path / "r").exists()


def test_an_unknown_part_is_refused_with_those_there_are(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["hamg"])
    assert refused.value.code == 2
    assert "unknown part hamg; the parts are: detection, names" in capfd.readouterr().err
