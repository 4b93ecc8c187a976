"""Jobs whose output or report cannot be written."""

from __future__ import annotations

import json
from pathlib import Path

from .test_cli_runs import dsrun


def test_a_job_whose_output_or_report_cannot_be_written_has_not_ended_well(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("print('said')\n")
    with Path("/dev/full").open("w") as full:
        done = dsrun(tmp_path, "--num_gpus=1", "--report_file=r.json", "x.py", stdout=full)
    assert "cannot write to standard output (No space left on device)" in done.stderr
    assert (done.returncode, json.loads((tmp_path / "r.json").read_text())["exit_code"]) == (74, 74)
    done = dsrun(tmp_path, "--num_gpus=1", "--report_file=/dev/full", "x.py")
    assert "--report_file /dev/full: no space left on device" in done.stderr
    assert done.returncode == 74
    (tmp_path / "x.py").write_text("raise SystemExit(3)\n")
    assert dsrun(tmp_path, "--num_gpus=1", "--report_file=/dev/full", "x.py").returncode == 3
