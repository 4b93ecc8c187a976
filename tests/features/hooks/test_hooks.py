"""A whole job with metrics and a command for its events."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from ...support.checkout import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path


def test_a_job_that_fails_is_told_to_other_programs(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(
        "import os, sys; print('here'); sys.exit(os.environ['RANK'] == '1')"
    )
    words = ("--num_gpus=2", "--metrics_file", "m", "--on_event", "cat >> events", "x.py")
    argv = [sys.executable, str(CHECKOUT / "bin" / "dsrun"), "--accelerator=cpu", *words]
    ran = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    told = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert [one["event"] for one in told] == ["start", "failure", "end"]
    assert told[-1]["report"]["first_failure"]["exit_code"] == 1
    families = text_string_to_metric_families((tmp_path / "m").read_text())
    values = {one.name: one.value for family in families for one in family.samples}
    assert (values["dsrun_exit_code"], values["dsrun_world_size"]) == (1, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"x.py", "m", "events"}
