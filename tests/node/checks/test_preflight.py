"""The checks of a node before a job."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.common import system
from dsrun.launcher.common.wording import ANOTHER_PYTHON
from dsrun.launcher.node.checks import preflight
from dsrun.launcher.specs.program import Program


def test_folders(tmp_path: Path) -> None:
    assert preflight.folder_problem(os.fsencode(tmp_path)) == ""
    assert (
        preflight.folder_problem(b"/no/such")
        == "no such folder: /no/such (--workdir names another)"
    )
    (tmp_path / "file").touch()
    file = os.fsencode(tmp_path / "file")
    assert preflight.folder_problem(file).startswith("no such folder: ")


PYTHON = os.fsencode(sys.executable)


@pytest.mark.parametrize(
    ("program", "python", "problem"),
    [
        (Program("here.py"), PYTHON, ""),
        (Program("sub/../here.py"), PYTHON, ""),
        (Program("{folder}/here.py"), PYTHON, ""),
        (Program("gone.py"), PYTHON, "no such script: {folder}/gone.py"),
        (Program("/gone.py"), PYTHON, "no such script: /gone.py"),
        (Program("any.module", module=True), PYTHON, ""),
        (Program("here.py"), b"/no/python", f"no Python at /no/python {ANOTHER_PYTHON}"),
        (Program("m", module=True), b"/no/py", f"no Python at /no/py {ANOTHER_PYTHON}"),
        (Program("sh", no_python=True), b"/no/python", ""),
        (Program("./run", no_python=True), b"", ""),
        (Program("{folder}/run", no_python=True), b"", ""),
        (
            Program("run", no_python=True),
            b"",
            "no such program: run is not on its PATH; give a path",
        ),
        (
            Program("./gone", no_python=True),
            b"",
            "no such program: ./gone (--no_python runs an executable file)",
        ),
        (
            Program("./here.py", no_python=True),
            b"",
            "--no_python {folder}/here.py: is not executable (chmod +x {folder}/here.py)",
        ),
        (
            Program("./sub", no_python=True),
            b"",
            "--no_python {folder}/sub: is a folder, not a program",
        ),
    ],
)
def test_programs(program: Program, python: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / "here.py").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "run").touch(mode=0o755)
    folder = os.fsencode(tmp_path)
    script = os.fsencode(program.script.replace("{folder}", str(tmp_path)))
    found = preflight.program_problem(program, python, script, folder, b"/usr/bin:/bin")
    assert found == problem.replace("{folder}", str(tmp_path))


def test_versions() -> None:
    assert preflight.version_problem(__version__) == ""
    assert preflight.version_problem("9") == (
        f"dsrun {__version__} is installed here, the runner is 9: install the same version"
    )


@pytest.mark.parametrize(
    ("name", "found", "right"),
    [
        (os.uname().nodename, None, True),
        (f"{os.uname().nodename}.cluster", None, True),
        ("slurms-name", None, True),
        ("other", ["127.0.1.1"], True),
        ("other", ["192.0.2.1", "192.0.2.7"], True),
        ("other", None, True),  # cannot be known
        ("other", ["192.0.2.1"], False),
        ("other", ["127.0.0.1", "192.0.2.1"], False),
    ],
)
def test_hosts(
    monkeypatch: pytest.MonkeyPatch, name: str, found: list[str] | None, right: bool
) -> None:
    def resolved(asked: str) -> set[str]:
        assert asked == name
        if found is None:
            raise OSError("no such name")
        return set(found)

    monkeypatch.setenv("SLURMD_NODENAME", "slurms-name")
    monkeypatch.setattr(system, "addresses_of", resolved)
    monkeypatch.setattr(preflight, "own_addresses", lambda: ("192.0.2.7",))
    here = os.uname().nodename
    problem = f"the engine started its node launcher on another host, {here}"
    assert preflight.host_problem(name) == ("" if right else problem)


def test_what_may_not_be_read_or_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root has permission for everything."""
    (tmp_path / "train.py").touch()
    folder = os.fsencode(tmp_path)
    allowed = os.access
    monkeypatch.setattr(system, "access", lambda _path, _mode: False)
    assert preflight.folder_problem(folder) == (f"no permission to enter folder {tmp_path}")
    monkeypatch.setattr(system, "access", lambda path, mode: path == PYTHON and allowed(path, mode))
    found = preflight.program_problem(Program("train.py"), PYTHON, b"train.py", folder, b"")
    assert found == f"no permission to read script {tmp_path}/train.py"
