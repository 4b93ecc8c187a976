"""One job, however it is started: report, exit code, events, metrics and lines are the same."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from .support.limits import wait_for
from .support.ways import WAYS, Ended, run

if TYPE_CHECKING:
    from pathlib import Path

PRINTS = "import os\nprint('hello', flush=True)\n"
FAILS = """
import os, signal, sys
print("hello", flush=True)
if os.environ["RANK"] == "1":
    sys.exit("no")
signal.pause()
"""
RAISES = FAILS.replace('sys.exit("no")', "undefined")
WAITS = "import signal\nopen('up', 'w').close()\nsignal.pause()\n"
FAILS_ONCE = """
import os, signal, sys
if not os.path.exists("again") and os.environ["RANK"] == "1":
    open("again", "w").close()
    sys.exit(3)
if not os.path.exists("again"):
    signal.pause()
"""
MOVES = """
import os, time
where = os.environ["MOVED"]
if os.environ["RANK"] == "0":
    while where == "metrics" and not os.path.exists("metrics/m"):
        time.sleep(0.01)
    os.rename(where, "moved")
"""
SCONTROL = """#!/bin/sh
echo "$@" >> {folder}/asked
case "$1" in --oneliner) echo "JobId=12 JobState=RUNNING Reason=None" ;; esac
"""
EVENTS = "cat >> events"
TELLING = {"report_file": "report", "on_event": EVENTS, "metrics_file": "metrics"}


COMMANDS = ("terminal", "no_ssh", "on")
PRINTED_BY_PROGRAM = {"launch", "fleet"}


class Case(NamedTuple):
    """A job, and how it ends.

    Attributes:
        script, options: the job.
        code: its exit code.
        events: what the command of --on_event is run for.
        report: what the report says, but for times and names.
        lines: each is a part of what dsrun says.
        files: that the job writes.
    """

    script: str
    options: dict[str, Any]
    code: int = 0
    events: tuple[str, ...] = ("start", "end")
    report: dict[str, Any] = {}  # noqa: RUF012
    lines: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


CASES = {
    "a job that ends well": Case(
        PRINTS,
        {"log_dir": "logs", "warn_slow": True, "hang_timeout": 300, "no_requeue_code": 99},
        report={"cause": "none", "verdict": None, "failures": []},
    ),
    "a job that fails": Case(
        FAILS,
        {"grace": 1},
        code=1,
        events=("start", "failure", "end"),
        report={"cause": "failure", "stopped": 1},
        lines=(", local rank 1, pid ", "the end of its standard error"),
    ),
    "a job that would fail again": Case(
        RAISES,
        {"grace": 1, "no_requeue_code": 99},
        code=99,
        events=("start", "failure", "end"),
        report={"cause": "failure"},
        lines=("  it would fail again: exit code 99 (--no_requeue_code)",),
    ),
    "a job that breaks a rule": Case(
        "import signal\nprint('loss nan', flush=True)\nsignal.pause()\n",
        {"grace": 1, "rules": "rules.toml"},
        code=77,
        events=("start", "rule", "end"),
        report={"cause": "no progress"},
        lines=("dsrun: stopped the job after ",),
    ),
    "a job without the line that it needs": Case(
        "import signal\nsignal.pause()\n",
        {"grace": 1, "expect": "step", "within": 1, "on_missing": "stop"},
        code=77,
        events=("start", "rule", "end"),
        report={"cause": "no progress"},
    ),
    "a job that fails once": Case(
        FAILS_ONCE,
        {"grace": 1, "max_restarts": 1},
        events=("start", "failure", "restart", "end"),
        report={"cause": "none", "failures": []},
        lines=("restart 1/1: rank 1 ",),
    ),
    "a job that cannot start": Case(
        PRINTS,
        {"health_command": "echo the disk is full; exit 3"},
        code=69,
        events=("end",),
        lines=("the disk is full",),
    ),
}

CODE = re.compile(r'^dsrun_exit_code\{job_id="(.*)"\} (.*)$', re.MULTILINE)
RULES = "[[rule]]\nname = 'loss'\nexpect = 'loss (\\S+)'\nfinite = 1\nthen = 'stop'\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a job runs."""
    (tmp_path / "rules.toml").write_text(RULES)
    return tmp_path


def check(case: Case, ended: Ended) -> None:
    """Check everything that is told of a job."""
    assert ended.code == case.code, ended.err
    report, events = ended.report, ended.events
    assert report["exit_code"] == case.code
    assert {name: report[name] for name in case.report} == case.report
    assert [one["event"] for one in events] == list(case.events)
    assert events[-1]["exit_code"] == case.code
    assert {one["job_id"] for one in events} == {report["job_id"]}
    if "error" in report:
        assert events[-1]["error"] == report["error"]
        assert events[-1]["report"] is None
    else:
        assert events[-1]["report"] == report
    assert CODE.findall(ended.metrics) == [(report["job_id"], f"{case.code}.0")]
    for line in case.lines:
        assert sum(line in said for said in ended.said) == 1, (line, ended.err)
    if "log_dir" in case.options:
        assert (ended.folder / "logs").is_dir()
    assert "this is a bug" not in ended.err


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_a_job_is_told_of_in_the_same_way(name: str, way: str, folder: Path) -> None:
    case = CASES[name]
    check(case, run(way, folder, case.script, {**TELLING, **case.options}))


@pytest.mark.parametrize("way", WAYS)
def test_a_signal_ends_a_job(way: str, folder: Path) -> None:
    ended = run(way, folder, WAITS, {**TELLING, "grace": 1}, signals=True)
    assert ended.code == (128 + signal.SIGTERM if way in COMMANDS else -signal.SIGTERM)
    wait_for(lambda: len(ended.events) == 2, "the end of the job")
    end = ended.events[-1]
    assert (end["event"], end["exit_code"]) == (
        "end",
        128 + (signal.SIGTERM if way in COMMANDS else signal.SIGHUP),
    )
    report = folder / "report"
    wait_for(lambda: report.exists() and report.read_text().endswith("}\n"), "the report")
    assert ended.report == end["report"]


@pytest.mark.parametrize("way", [one for one in WAYS if one not in PRINTED_BY_PROGRAM])
def test_output_that_cannot_be_written_is_an_exit_code(way: str, folder: Path) -> None:
    """The report file says so as well."""
    ended = run(way, folder, PRINTS, {"report_file": "report"}, out="/dev/full")
    assert (ended.code, ended.report["exit_code"]) == (74, 74)
    assert sum("cannot write to standard output" in line for line in ended.said) == 1
    assert ended.report["verdict"] is not None


@pytest.mark.parametrize("way", WAYS)
def test_a_report_file_that_cannot_be_written_is_an_exit_code(way: str, folder: Path) -> None:
    (folder / "reports").mkdir()
    ended = run(way, folder, MOVES, {"report_file": "reports/r"}, env={"MOVED": "reports"})
    assert ended.code == 74, ended.err
    assert sum("--report_file" in line and "no such file" in line for line in ended.said) == 1


@pytest.mark.parametrize("way", WAYS)
def test_hooks_that_fail_at_the_end_are_told(way: str, folder: Path) -> None:
    (folder / "metrics").mkdir()
    told = "[ $DSRUN_EVENT = start ] || { echo no >&2; exit 3; }"
    options = {"on_event": told, "metrics_file": "metrics/m", "num_gpus": 1}
    ended = run(way, folder, MOVES, options, env={"MOVED": "metrics"})
    assert ended.code == 0, ended.err
    for text in ("--on_event for end: exit code 3: no", "--metrics_file"):
        assert sum(text in line for line in ended.said) == 1, ended.err


@pytest.mark.parametrize("way", COMMANDS)
@pytest.mark.parametrize("name", ["a job that fails", "a job that cannot start"])
def test_a_slurm_job_is_requeued(name: str, way: str, folder: Path) -> None:
    program, case = folder / "scontrol", CASES[name]
    program.write_text(SCONTROL.format(folder=folder))
    program.chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "12"}
    options = {**case.options, "requeue_on": f"85,{case.code}"}
    ended = run(way, folder, case.script, options, env=env)
    assert ended.code == case.code
    asked = (folder / "asked").read_text().splitlines()
    assert asked == ["--oneliner show job 12", "requeue 12"]
    assert sum("requeueing Slurm job 12" in line for line in ended.said) == 1


@pytest.mark.parametrize("way", [one for one in WAYS if one not in PRINTED_BY_PROGRAM])
def test_the_same_line_of_all_ranks_is_printed_once(way: str, folder: Path) -> None:
    ended = run(way, folder, PRINTS, {"fold": True, "prefix": "{rank}| "})
    assert ended.out == "0-1| hello\n"
