"""`dsrun-check --promises` on this machine, with rows of the tests' own beside real ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dsrun.launcher.common.errors import USAGE

from ...support import schemas
from ...support.checkout import BIN, IMPORTABLE
from ...support.limits import HANG, wait_for
from ...support.promises import broken

CHECK = (sys.executable, str(BIN / "dsrun-check"))
OWN_ROWS = """
import sys
from dsrun.launcher.features.full_check import command as check
from dsrun.launcher.features.promises import runner, runner_rows as rows

known = {row.name: row for row in rows.ROWS}
runner.LATE = 2.0
exit, finish = known["exit"], known["healthy"]
rows.ROWS = (
    exit._replace(name="instant", promise=exit.promise._replace(within=0.0)),
    exit._replace(name="other-code", promise=exit.promise._replace(codes=(8,))),
    exit._replace(name="other-rank", promise=exit.promise._replace(line="rank 7 (nowhere)")),
    known["children"]._replace(
        name="leak",
        act="abandon",
        options=("--allow_background",),
        promise=finish.promise._replace(within=2.0, each=""),
    ),
    known["restart"]._replace(name="no-restart", options=()),
)
check.start()
"""
"""The command with promises that dsrun does not make."""

PROGRAM = Path(__file__).parents[3] / "launcher" / "features" / "promises" / "worker_program.py"


def environ(folder: Path) -> dict[str, str]:
    kept = {name: one for name, one in os.environ.items() if not name.startswith("DSRUN")}
    return {**kept, **IMPORTABLE, "TMPDIR": str(folder)}


def check(folder: Path, *words: str, command: tuple[str, ...] = CHECK) -> Any:
    return subprocess.run(
        [*command, *words],
        cwd=folder,
        env=environ(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )


def told(done: Any) -> dict[str, Any]:
    assert done.stderr == ""
    value: dict[str, Any] = json.loads(done.stdout)
    assert schemas.faults("promises", value) == []
    assert value["exit_code"] == done.returncode
    return value


def test_promises_are_kept_beside_a_process_that_looks_alike(tmp_path: Path) -> None:
    like = subprocess.Popen(
        [sys.executable, str(PROGRAM), "finish", "100000"],
        env={**environ(Path("/tmp")), "DSRUN_JOB_ID": "20260101-000000-aaaaaa"},
        stdout=subprocess.PIPE,
    )
    with like:
        assert like.stdout is not None
        assert like.stdout.readline().startswith(b"@up 0 1 ")
        done = check(tmp_path, "--promises", "children,client", "--json")
        value = told(done)
        alive = like.poll() is None
        like.kill()
    assert alive
    assert [one["row"] for one in value["rows"]] == ["children", "client"]
    assert broken(value) == {}
    assert value["rows"][1]["state"] == "skipped"
    assert value["rows"][0]["code"] == 7
    assert value["rows"][0]["line"].startswith("rank 1 (localhost, ")


def test_broken_promises_are_told_and_nothing_is_left(tmp_path: Path) -> None:
    done = check(tmp_path, "--promises", "--json", command=(sys.executable, "-c", OWN_ROWS))
    value = told(done)
    assert done.returncode == 1
    rows = {one["row"]: one for one in value["rows"]}
    assert {one["state"] for one in rows.values()} == {"not ok"}
    assert any(one.startswith("it took ") for one in rows["instant"]["why"])
    assert "exit code 7, not 8" in rows["other-code"]["why"]
    assert any("no line with 'rank 7 (nowhere)'" in one for one in rows["other-rank"]["why"])
    (leak,) = rows["leak"]["why"]
    assert leak.startswith("left on localhost: pid ")
    assert rows["leak"]["clean"] is None
    assert "exit code 7, not 0" in rows["no-restart"]["why"]
    wait_for(lambda: not stand_ins(tmp_path), "the children to be gone")


def test_a_dry_run_starts_nothing(tmp_path: Path) -> None:
    done = check(tmp_path, "--promises", "exit", "--dry_run", "--json")
    (row,) = told(done)["rows"]
    assert (row["state"], row["code"], row["promised"]["codes"]) == ("planned", None, [7])
    assert row["command"][0] == "dsrun"
    done = check(tmp_path, "--promises", "--dry_run")
    assert (done.returncode, done.stderr) == (0, "")
    assert "planned" in done.stdout
    assert "promises kept" not in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_and_its_job(tmp_path: Path, number: int) -> None:
    process = subprocess.Popen(
        [*CHECK, "--promises", "exit,hang"],
        cwd=tmp_path,
        env=environ(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        wait_for(lambda: any(tmp_path.glob("dsrun-promises-*/hang-*.err")), "the second job")
        process.send_signal(number)
        output, errors = process.communicate(timeout=HANG)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert errors == ""
    assert output.splitlines()[1].startswith("exit ")
    wait_for(lambda: not stand_ins(tmp_path), "the stand-ins to be gone")


def stand_ins(folder: Path) -> list[str]:
    """The processes of a test whose temporary folder this is."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"\0TMPDIR={folder}\0".encode() in b"\0" + path.read_bytes():
                found += [path.parent.name]
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--promises", "nope"), "--promises: no such row: 'nope'; expected some of healthy, "),
        (("--promises", "--full"), "conflicting options: --promises and --full; give one"),
        (("--promises", "--compare"), "conflicting options: --promises and --compare; give one"),
        (("--promises", "--on", "x"), "--promises: not with --on x: rows kill node launchers"),
        (("--dry_run",), "--dry_run: only with --promises"),
        (("--promises", "--num_gpus", "x"), "--num_gpus: expected 1 to "),
    ],
)
def test_wrong_input_is_one_line(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    done = check(tmp_path, *words)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert done.stderr.startswith(f"dsrun: {why}")
    assert done.stderr.count("\n") == 1
