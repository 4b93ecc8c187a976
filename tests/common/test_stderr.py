"""How everything that has no console prints messages."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import dsrun.launcher
from dsrun.launcher.common.stderr import tell

if TYPE_CHECKING:
    import pytest


def test_each_line_is_safe_and_has_the_name_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell("a\x1b[2J\nb")
    tell("c", "dsrun-job")
    assert capsys.readouterr().err == "dsrun: a\\x1b[2J\ndsrun: b\ndsrun-job: c\n"


def test_nothing_happens_if_nobody_can_read_it() -> None:
    read, write = os.pipe()
    os.close(read)
    program = "from dsrun.launcher.common.stderr import tell; tell('a'); tell('b'); print('on')"
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=write, check=True
    )
    os.close(write)
    assert done.stdout == b"on\n"


OUT_OF_FILES = {"common/entry.py", "backends/prefork.py"}
"""Modules with a message for a process that can open no file, and so import nothing more."""


def test_no_module_prints_messages_by_hand() -> None:
    [folder] = dsrun.launcher.__path__
    found = {
        str(path.relative_to(folder)): [node.lineno for node in _by_hand(path)]
        for path in Path(folder).rglob("*.py")
        if any(_by_hand(path))
    }
    assert found.keys() == OUT_OF_FILES
    assert all(len(lines) == 1 for lines in found.values())


def _by_hand(path: Path) -> list[ast.Call]:
    """Return the calls of a module that write text which begins as a message of dsrun does."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    writes = [call for call in calls if ast.unparse(call.func) == "sys.stderr.write"]
    own_program = "debug/hook"  # in the process of a worker, without dsrun
    return [c for c in writes if "dsrun: " in ast.unparse(c) and own_program not in str(path)]
