"""Rules on output on real hosts: a silent rank, NaN, one that only chats, and one that is well."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun

RULES = """
[[rule]]
name = "silent"
expect = "step"
within = 1
ranks = "0"

[[rule]]
name = "number"
expect = 'loss (?P<loss>\\S+)'
finite = "loss"

[[rule]]
name = "stuck"
expect = "step"
within = 1000
every = 10
ranks = "2"
then = "stop"

[[rule]]
name = "well"
expect = "step"
within = 1000
every = 10
ranks = "3"
"""

RANKS = """
import os, time

rank, step = int(os.environ["RANK"]), 0
while rank == 2 and not os.path.exists("nan"):
    time.sleep(0.01)
while True:
    if rank == 1:
        print("loss", "nan" if step == 3 else 1.0, flush=True)
    if rank == 1 and step == 3:
        open("nan", "w").close()
    if rank == 3 or (rank == 2 and step == 0):
        print("step", step, flush=True)
    if rank == 2:
        print("waiting for data", flush=True)
    step += 1
    time.sleep(0.1)
"""

FAILING = """
import os, sys

if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os.makedirs("ckpt")
    open("ckpt/1.pt", "w").close()
sys.exit(3)
"""


@pytest.mark.tier("test")
def test_ranks_that_break_rules_are_named_and_others_are_not(dsrun: Dsrun, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "train.py").write_text(RANKS)
    report = ("--report_file", "report.json", "--grace", "1")
    done = dsrun("--host", "n1:2,n2:2", *report, "--rules", "rules.toml", "train.py")
    assert done.returncode == 77, done.stderr
    silent = "rule silent: no line has matched 'step' within 1.0 s of the start of the workers"
    number = "rule number: loss of rank 1 (n1) is nan: 'loss nan'"
    stuck = (
        "rule stuck: no line has matched 'step' for 10.0 s; the last was 'step 0' from rank 2 (n2)"
    )
    broken = [line for line in done.stderr.splitlines() if line.startswith("dsrun: rule ")]
    assert sorted(broken) == sorted(
        [f"dsrun: {silent}", f"dsrun: {number}", f"dsrun: {stuck}: stopping the job"]
    )
    assert "dsrun: stopped the job after " in done.stderr
    ended = json.loads((tmp_path / "report.json").read_text())
    assert (ended["cause"], ended["exit_code"], ended["stopped"]) == ("no progress", 77, 4)
    assert ended["lost"] == [{"host": "", "reason": stuck}]


def test_a_job_that_fails_without_new_checkpoints_is_not_restarted_for_ever(
    dsrun: Dsrun, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(FAILING)
    progress = ("--stop_without_progress", "1", "--checkpoints", "ckpt/*.pt")
    done = dsrun("--host", "n1:1", "--max_restarts", "9", *progress, "train.py")
    assert done.returncode == 77, done.stderr
    assert "dsrun: restart 2/9: rank 0 on n1 exited 3" in done.stderr
    why = f"1 round in a row without progress: no new file {tmp_path}/ckpt/*.pt"
    assert f"dsrun: {why}: stopping the job\n" in done.stderr
    assert "restart 3/9" not in done.stderr


def test_an_error_of_the_script_is_not_tried_again(dsrun: Dsrun, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import missing_module\n")
    asked = ("--max_restarts", "9", "--restart_on", "node,network", "--no_requeue_code", "64")
    done = dsrun("--host", "n1:1,n2:1", *asked, "--report_file", "report.json", "train.py")
    assert done.returncode == 64, done.stderr
    assert re.search(
        r"dsrun: no restart: rank . on n. exited 1; its class is script, not", done.stderr
    )
    assert "  it would fail again: exit code 64 (--no_requeue_code)\n" in done.stderr
    ended = json.loads((tmp_path / "report.json").read_text())
    assert (ended["exit_code"], ended["first_failure"]["code"]) == (64, 1)
