"""What a script is passed, and what one rank has returned and written: with real jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsrun.launcher.api import launch


def test_a_script_is_passed_only_what_was_given(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys; print(sys.argv[1:])\n")
    job = launch(str(script), ["--lr", "1"], hosts="localhost:1", output=None)
    assert job.wait().exit_code == 0
    assert job.stdout() == "['--lr', '1']\n"


def test_one_rank_is_asked_for() -> None:
    def work() -> int:
        import os
        import sys

        rank = int(os.environ["RANK"])
        print("rank", rank)
        print("error of", rank, file=sys.stderr)
        return rank

    job = launch(work, hosts="localhost:2", output=None)
    assert job.result(1) == 1
    assert (job.stdout(1), job.stderr(0)) == ("rank 1\n", "error of 0\n")
    with pytest.raises(KeyError):
        job.result(2)
