"""dsrun-check as a person uses it, on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from typing import TYPE_CHECKING

import pytest

from ...support import schemas
from ...support.checkout import BIN
from ...support.limits import HANG

if TYPE_CHECKING:
    from pathlib import Path

SPACE = {"shm", "space-low"}
"""Findings that depend on what other programs have on this machine's disks."""


class Check:
    """The command in a folder with a script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "x.py").write_text("print(1)\n")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DSRUN")}
        self.environ = {**kept, "DSRUN_ACCELERATOR": "cpu"}

    def __call__(self, *words: str) -> tuple[int, str, str]:
        command = [sys.executable, str(BIN / "dsrun-check"), *words]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG,
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def dsrun_check(tmp_path: Path) -> Check:
    return Check(tmp_path)


def test_this_machine_is_a_row_of_the_table(dsrun_check: Check) -> None:
    code, out, err = dsrun_check("--num_gpus", "2", "x.py")
    assert (code, err) == (0, "")
    heading, row = out.splitlines()[:2]
    assert heading.split()[0] == "NODE"
    assert row.split()[0] == "localhost"


def test_json_has_a_schema_and_the_facts(dsrun_check: Check) -> None:
    code, out, _ = dsrun_check("--json", "x.py")
    value = json.loads(out)
    assert schemas.faults("check", value) == []
    assert code == value["exit_code"] == 0
    (node,) = value["nodes"]
    assert (node["node"], node["facts"]["file_count"]) == ("localhost", 1)
    assert len(node["facts"]["script"]) == 64
    assert [one for one in value["findings"] if one["code"] not in SPACE] == []
    assert value["full"] is None


def test_a_problem_is_an_error(dsrun_check: Check) -> None:
    (dsrun_check.folder / "env.sh").write_text("exit 3\n")
    code, out, _ = dsrun_check("--venv_script", "env.sh")
    assert code == 69
    assert "error: localhost: --venv_script " in out
    assert out.splitlines()[1].endswith("1 error")


def test_nothing_differs_on_one_node(dsrun_check: Check) -> None:
    assert dsrun_check("--compare")[:2] == (0, "nothing differs\n")


@pytest.mark.tier("ci")
def test_the_matrices_of_a_full_check_become_a_picture(dsrun_check: Check) -> None:
    code, out, err = dsrun_check("--full", "--svg", "m.svg", "--json")
    assert (code, err) == (0, "")
    value = json.loads(out)
    assert schemas.faults("check", value) == []
    assert [one["step"] for one in value["full"]] == ["network", "devices", "collectives"]
    assert "<svg" in (dsrun_check.folder / "m.svg").read_text()


@pytest.mark.parametrize(
    ("script", "warned"), [("import torch\n", True), (None, True), ("print(1)\n", False)]
)
def test_a_python_without_torch_is_not_ok(
    dsrun_check: Check, script: str | None, warned: bool
) -> None:
    venv.create(dsrun_check.folder / "bare", symlinks=True)
    python = dsrun_check.folder / "bare/bin/python"
    (dsrun_check.folder / "t.py").write_text(script or "")
    code, out, err = dsrun_check("--json", "--python", str(python), *(["t.py"] if script else []))
    assert (code, err) == (0, "")
    (node,) = json.loads(out)["nodes"]
    found = [one for one in json.loads(out)["findings"] if one["code"] == "torch-missing"]
    assert [(one["severity"], one["nodes"], one["text"], one["advice"]) for one in found] == [
        (
            "warning",
            ["localhost"],
            f"torch is not installed for {python}",
            f"{python} -m pip install torch (or --python)",
        )
    ] * warned
    assert (node["state"] == "ok") <= (not warned)


def test_help(dsrun_check: Check) -> None:
    code, out, _ = dsrun_check("-h")
    assert code == 0
    assert "--compare" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--compare", "--report"], "conflicting options: --compare and --report"),
        (["--compare", "--json"], "conflicting options: --compare and --json"),
        (["--svg", "x.svg"], "--svg: only with --full"),
        (["--full", "--svg", "/no/x.svg"], "--svg /no/x.svg: no folder /no"),
        (["--full", "--svg", "t.py", "t.py"], "/t.py: is also the script; name another file"),
        (["-H", "missing"], "--hostfile missing: no such file"),
        (["--on", "missing"], "--on missing: no such hold on this machine"),
        (["missing.py"], "missing.py (x.py is here)"),
        (["--launcher", "slurm"], "this is not a Slurm job"),
    ],
)
def test_bad_command_lines_start_nothing(
    words: list[str], message: str, dsrun_check: Check
) -> None:
    code, out, err = dsrun_check(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
