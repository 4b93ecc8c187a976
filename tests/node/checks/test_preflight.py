"""The checks of a node before a job."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.common import system
from dsrun.launcher.features.quick_check import node_pythons as pythons
from dsrun.launcher.node.checks import preflight
from dsrun.launcher.specs.program import Program

from ...support.local_control import needs_root
from ...support.other_user import WORDS, open_folder, other_user

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_folders(tmp_path: Path) -> None:
    assert preflight.folder_problem(os.fsencode(tmp_path)) == ""
    assert (
        preflight.folder_problem(b"/no/such")
        == "no such folder: /no/such (--workdir names another)"
    )
    (tmp_path / "file").touch()
    file = os.fsencode(tmp_path / "file")
    assert preflight.folder_problem(file).startswith("no such folder: ")


PYTHON, BIN = os.fsencode(sys.executable), ("/usr/bin", "/bin")
AS_OTHER = b"/bin/sh"
"""In place of a Python, which may be in root's own folder."""


@pytest.mark.parametrize(
    ("program", "python", "problem"),
    [
        (Program("here.py"), PYTHON, ""),
        (Program("sub/../here.py"), PYTHON, ""),
        (Program("{folder}/here.py"), PYTHON, ""),
        (Program("gone.py"), PYTHON, "no such script: {folder}/gone.py"),
        (Program("/gone.py"), PYTHON, "no such script: /gone.py"),
        (Program("any.module", module=True), PYTHON, ""),
        (Program("here.py"), b"/no/python", pythons.problem("/no/python", BIN)),
        (Program("m", module=True), b"/no/py", pythons.problem("/no/py", BIN)),
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
    (tmp_path / "run").write_text("#!/bin/sh\n")
    (tmp_path / "run").chmod(0o755)
    folder = os.fsencode(tmp_path)
    script = os.fsencode(program.script.replace("{folder}", str(tmp_path)))
    found = preflight.program_problem(program, python, script, folder, os.fsencode(":".join(BIN)))
    assert found == problem.replace("{folder}", str(tmp_path))


def test_versions() -> None:
    assert preflight.version_problem(__version__) == ""
    assert preflight.version_problem("9") == (
        f"dsrun {__version__} is installed here, but the runner is dsrun 9:"
        " install the same version"
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


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder of which another user than root may read some."""
    with open_folder() as folder:
        for name in ("train.py", "pkg/__init__.py", "pkg/__main__.py", "pkg/sub.py"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).touch()
        (folder / "closed").mkdir(mode=0o700)
        (folder / "closed" / "x.py").touch()
        yield folder


def close(path: Path) -> str:
    """Close a file or folder to other users; return what they are told of it."""
    folder = path.is_dir()
    path.chmod(0o700 if folder else 0o600)
    verb, right, mode = ("enter", "x", "drwx") if folder else ("read", "r", "-rw-")
    return (
        f"{WORDS} may not {verb} {path}: no {right} permission ({mode}------, owned by user root)"
    )


@needs_root
def test_a_folder_that_may_not_be_entered(shared: Path) -> None:
    why = close(shared / "closed")
    with other_user():
        found = preflight.folder_problem(os.fsencode(shared / "closed"))
    assert found == f"folder {shared}/closed: {why}"


@needs_root
@pytest.mark.parametrize(
    ("closed", "script"),
    [
        ("train.py", "train.py"),
        ("closed", "closed/x.py"),
        ("pkg/__main__.py", "pkg"),
        ("pkg", "pkg/sub.py"),
    ],
)
def test_a_script_that_may_not_be_read(shared: Path, closed: str, script: str) -> None:
    why = close(shared / closed)
    path = shared / script / "__main__.py" if script == "pkg" else shared / script
    name = os.fsencode(script)
    found = [program(shared, Program(script), name)]
    with other_user():
        found.append(program(shared, Program(script), name))
    assert found == ["", f"script {path}: {why}"]


@needs_root
@pytest.mark.parametrize(
    ("closed", "module"),
    [
        ("train.py", "train"),
        ("pkg", "pkg"),
        ("pkg", "pkg.sub"),
        ("pkg/__init__.py", "pkg.sub"),
        ("pkg/sub.py", "pkg.sub"),
        ("pkg/__main__.py", "pkg"),
    ],
)
def test_a_module_that_may_not_be_read(shared: Path, closed: str, module: str) -> None:
    one = Program(module, module=True)
    name = module.encode()
    with other_user():
        assert program(shared, one, name) == ""
    why = close(shared / closed)
    assert program(shared, one, name) == "", "root may"
    with other_user():
        assert program(shared, one, name) == f"-m {module}: {why}"


@needs_root
def test_a_closed_folder_hides_no_module_that_is_installed(shared: Path) -> None:
    """Without the right to enter it, it is no package for Python, which looks further."""
    (shared / "json").mkdir(mode=0o700)
    with other_user():
        assert program(shared, Program("json.tool", module=True), b"json.tool") == ""


def program(folder: Path, one: Program, name: bytes) -> str:
    """Return why a program cannot be started in a folder."""
    here = os.fsencode(folder)
    return preflight.program_problem(one, AS_OTHER, name, here, b"", [here])
