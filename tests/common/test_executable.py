"""Where programs are found, and why a file cannot be run, told before the kernel tells it."""

from __future__ import annotations

import ast
import errno
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.executable import fault, find, fits, located, own_path, refusal

from ..support.checkout import CHECKOUT
from ..support.local_control import needs_root
from ..support.other_user import WORDS, open_folder, other_user

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x7fELF", ""),
        (b"", "is empty"),
        (b"echo here\n", "is neither a program for this machine nor a script that begins with #!"),
        (b"\0\1\2", "is neither a program for this machine nor a script that begins with #!"),
        (b"#!/bin/sh -e\n", ""),
        (b"#! \t/usr/bin/env python\n", ""),
        (b"#!/bin/sh", ""),
        (b"#!\n", ""),
        (
            b"#!/usr/bin/pyhton -u\nprint()\n",
            "its interpreter /usr/bin/pyhton (first line) does not",
        ),
        (b"#!/etc/passwd\n", "its interpreter /etc/passwd (first line) is not executable"),
        (b"#!/bin/sh\r\necho\r\n", "its first line ends in a carriage return, as on Windows"),
        (b"#!" + b"x" * 9999, "its interpreter xxx"),
    ],
)
def test_the_first_line_names_what_runs_it(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "run"
    path.write_bytes(content)
    path.chmod(0o755)
    found = fault(str(path))
    assert found.startswith(said)
    assert bool(found) is bool(said)


def test_why_a_program_could_not_be_started(tmp_path: Path) -> None:
    (tmp_path / "text").touch()
    error: OSError = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "text"))
    for name in (f"{tmp_path}/text", os.path.relpath(tmp_path / "text")):
        assert refusal(name, error).startswith("is not executable (chmod +x ")
    assert (
        refusal("sh", OSError(errno.ENOMEM, "Cannot allocate memory")) == "cannot allocate memory"
    )


@needs_root
def test_an_interpreter_in_a_folder_that_may_not_be_entered() -> None:
    with open_folder() as folder:
        (folder / "closed").mkdir(mode=0o700)
        run = folder / "run"
        run.write_text(f"#!{folder}/closed/sh\n")
        run.chmod(0o755)
        with other_user():
            found = fault(str(run))
    assert found.startswith(
        f"its interpreter {folder}/closed/sh (first line): permission denied: {WORDS} may not enter"
    )


def test_what_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "text").touch()
    os.mkfifo(tmp_path / "pipe", 0o755)
    assert fault(f"{tmp_path}/none") == "no such file"
    assert fault(f"{tmp_path}") == "is a folder, not a program"
    assert fault(f"{tmp_path}/pipe") == "is a pipe, not a program"
    assert fault(f"{tmp_path}/text") == f"is not executable (chmod +x {tmp_path}/text)"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three folders with the same program; the PATH is still to be set, and Python is nowhere."""
    for name in ("a", "b", "here"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").touch(0o755)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "executable", "/none/python3")
    return tmp_path


def test_a_program_is_found_on_the_own_path_and_then_beside_our_python(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"/none:{programs}/a:{programs}/b")
    assert find("tool") == located("tool") == f"{programs}/a/tool"
    (programs / "a" / "tool").chmod(0o644)
    assert find("tool") == f"{programs}/b/tool"
    monkeypatch.setenv("PATH", "/none")
    monkeypatch.setattr(sys, "executable", f"{programs}/b/python3")
    assert find("tool") == f"{programs}/b/tool"


@pytest.mark.parametrize(
    "path", ["", ":", ".", "/none:", ":/none", "/none::/no", "../a", "here/.."]
)
@pytest.mark.usefixtures("programs")
def test_a_relative_entry_of_the_path_is_not_searched(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path)
    assert find("tool") == ""
    with pytest.raises(FileNotFoundError, match="'tool'"):
        located("tool")


@pytest.mark.usefixtures("programs")
def test_without_a_path_the_usual_folders_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATH")
    assert find("tool") == ""
    assert find("sh") in {"/bin/sh", "/usr/bin/sh"}


def test_a_folder_and_a_text_are_no_programs(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs / "a" / "sub").mkdir()
    monkeypatch.setenv("PATH", f"{programs}/a")
    assert find("sub") == ""


def test_other_folders_take_the_place_of_the_path(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{programs}/a")
    assert find("tool", [".", "/none", f"{programs}/b"]) == f"{programs}/b/tool"
    assert find("tool", ["/none"]) == ""


def test_a_path_is_not_searched(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{programs}/a")
    assert find("./tool") == f"{programs}/here/tool"
    assert find("./none") == ""
    assert located("./none") == f"{programs}/here/none"


# -- no other way to find one --------------------------------------------------------------------

SEARCHING = re.compile(
    r"(\w+\.)*(which|posix_spawnp|exec[lv]pe?|spawn[lv]pe?|get_exec_path|find_library|popen|system)"
)
"""Functions that search a program by themselves."""

STARTING = re.compile(r"subprocess\.\w+|os\.posix_spawn|os\.execve?")
"""Functions that start what their first argument names."""

OWN_PROGRAM = {
    "launcher/node/workers/spawn.py": "system.execvpe",
    "launcher/features/preload/node_worker.py": "os.execvpe",
}
"""Where a worker's own program is executed: its PATH decides what that is."""

KNOWN = {
    **dict.fromkeys(("sys.executable", "executable.located", "executable.find"), "found here"),
    "python": "the interpreter of the workers: node/checks/file_checks.py has found it",
    "setup.python": "the same",
}
"""What may be started, and why its path is absolute."""

FOUND_BEFORE = {
    "launcher/features/containers/node_host.py": "a client, by `node_images.tool`",
    "launcher/features/containers/node_images.py": "clients, by `tool`",
    "launcher/api/detached.py": "sys.executable",
    "launcher/api/process.py": "sys.executable",
    "launcher/backends/ssh/config_reader.py": "ssh as it was found on creation",
    "launcher/features/schedulers/command_salloc.py": "salloc, and scontrol beside it",
    "launcher/features/promises/runner_job.py": "sys.executable",
    "launcher/features/binding/node_numactl.py": "numactl as it was found",
    "launcher/features/quick_check/node_venv.py": "/bin/bash",
    "launcher/features/quick_check/node_report.py": "the interpreter of the workers",
    "launcher/features/full_check/node_collective.py": "the interpreter of the workers",
    "launcher/features/full_check/node_devices.py": "the interpreter of the workers",
}
"""Modules that start what was found before in variables, and what that is."""


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield each call in the package with the path of its module."""
    for path in sorted([*CHECKOUT.glob("launcher/**/*.py"), *CHECKOUT.glob("accelerator/**/*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield str(path.relative_to(CHECKOUT)), node


def test_nothing_else_searches_a_program() -> None:
    """Nor does the accelerator package, which needs no program."""
    found = {
        (path, ast.unparse(call.func))
        for path, call in calls()
        if SEARCHING.fullmatch(ast.unparse(call.func))
    }
    assert found == {*OWN_PROGRAM.items()}


def test_everything_that_is_started_was_found_here() -> None:
    """A name without a folder would be searched in the entries of PATH, relative ones included."""
    unknown = {
        f"{path}:{call.lineno}: {ast.unparse(call)}"
        for path, call in calls()
        if STARTING.fullmatch(ast.unparse(call.func))
        and not any(word.arg == "executable" for word in call.keywords)
        and path not in FOUND_BEFORE
        and first_word(call) not in KNOWN
        and not first_word(call).startswith("'/")
    }
    assert unknown == set()


SEARCHED = {
    "launcher/common/executable.py": "dsrun's own PATH",
    "launcher/backends/engines/base.py": "its name in a message",
    "launcher/backends/engines/slurm.py": "its name among variables for containers",
    "launcher/cli/options.py": "what a value is called",
    "launcher/cli/parser.py": "what values of paths are called",
    "launcher/features/schedulers/command_salloc.py": "its name in a message",
    "launcher/node/checks/file_checks.py": "a worker's program, and --python NAME",
    "launcher/features/quick_check/node_venv.py": "what --venv_script puts on it",
    "launcher/planning/folders.py": "which active environment comes first on it",
    "launcher/specs/environment.py": "what workers get",
}
"""Modules that look at a PATH, and for what."""


def test_nobody_else_looks_at_path() -> None:
    found = {
        str(path.relative_to(CHECKOUT))
        for folder in ("launcher", "accelerator")
        for path in (CHECKOUT / folder).rglob("*.py")
        if re.search(r"""(["'])PATH\1|defpath""", path.read_text())
    }
    assert found == SEARCHED.keys()


def first_word(call: ast.Call) -> str:
    """Return what is started, as text; of a call in turn its function."""
    first = call.args[0] if call.args else ast.Constant("")
    if isinstance(first, ast.List) and first.elts:
        first = first.elts[0]
    return ast.unparse(first.func if isinstance(first, ast.Call) else first)


ENTRY = "enabled\ninterpreter /usr/bin/run\nflags: \n"


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        (f"{ENTRY}extension .abc\n", True),
        (f"{ENTRY}extension .py\n", False),
        (f"{ENTRY}offset 0\nmagic 6563\n", True),
        (f"{ENTRY}offset 1\nmagic 6368\n", True),
        (f"{ENTRY}offset 0\nmagic 6500\nmask ff00\n", True),
        (f"{ENTRY}offset 0\nmagic 6564\n", False),
        (f"{ENTRY}offset 3\nmagic 6f6f6f6f\n", False),
        (f"{ENTRY.replace('en', 'dis')}extension .abc\n", False),
        ("enabled\nmagic no\n", False),
        ("enabled", False),
    ],
)
def test_programs_that_an_administrator_has_registered(entry: str, *, found: bool) -> None:
    assert fits(entry, "x.abc", b"echo") is found


@pytest.mark.parametrize("path", ["", ".", ":", "a:b"])
def test_a_path_of_nothing_but_the_current_folder_is_the_systems(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path)
    assert own_path() == {"PATH": os.defpath}
