"""Command lines of other launchers, and the same lines with dsrun in their place."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .support.checkout import BIN
from .support.limits import HANG

if TYPE_CHECKING:
    from pathlib import Path


def test_a_script_of_torch_distributed_launch_gets_the_same_arguments(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "x.py").write_text(
        "import os, sys; open(os.environ['RANK'], 'w').write(repr(sys.argv[1:]))\n"
    )
    ranks = tmp_path / "0", tmp_path / "1"
    words = ("--nproc_per_node=2", "x.py", "--", "--lr", "1")
    launch = (sys.executable, "-W", "ignore", "-m", "torch.distributed.launch", *words)
    subprocess.run(launch, cwd=tmp_path, check=True, capture_output=True, timeout=HANG)
    expected = [rank.read_text() for rank in ranks]
    assert expected == [f"['--local-rank={rank}', '--lr', '1']" for rank in range(2)]
    for rank in ranks:
        rank.unlink()
    ours = (sys.executable, str(BIN / "dsrun"), "--local_rank", *words)
    subprocess.run(ours, cwd=tmp_path, check=True, capture_output=True, timeout=HANG)
    assert [rank.read_text() for rank in ranks] == expected
