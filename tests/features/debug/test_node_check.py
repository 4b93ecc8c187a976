"""Whether the workers' Python has debugpy."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from dsrun.launcher.features.debug import node_check as check

from .debugged import task

if TYPE_CHECKING:
    from pathlib import Path


def setup(python: str, folder: Path, **env: str) -> Any:
    return SimpleNamespace(
        python=os.fsencode(python),
        workdir=os.fsencode(folder),
        base={"PATH": os.defpath},
        task=task()._replace(env=env),
    )


def test_a_python_that_has_it(tmp_path: Path) -> None:
    assert check.problem(setup(sys.executable, tmp_path)) == ""


def test_one_that_has_not(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    assert check.problem(setup(str(python), tmp_path)) == (
        f"--debug: {python} has no debugpy: install it with {python} -m pip install debugpy"
    )


def test_one_that_cannot_be_run(tmp_path: Path) -> None:
    path = str(tmp_path / "none")
    assert check.problem(setup(path, tmp_path)) == f"--debug: {path}: no such file or directory"
