"""Ctrl-C while a command still imports its modules ends it as it ends a program in C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .support.checkout import BIN, CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

COMMANDS = sorted(path.name for path in BIN.iterdir())

INTERRUPTING = """
import os, signal, sys

class Interrupt:
    '''Ctrl-C when the command is about to import the first module of its own.'''

    def find_spec(self, name, path=None, target=None):
        if name in {"dsrun.launcher.runner", "dsrun.launcher.commands"}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
"""
"""Runs before the command: Python's `site` imports it."""


@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_during_the_imports(tmp_path: Path, command: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING)
    ran = subprocess.run(
        [sys.executable, str(BIN / command), "-h"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGINT, "", "")


def test_an_installation_begins_like_a_checkout() -> None:
    scripts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {
        name: f"dsrun.launcher.entry_points:{name.replace('-', '_')}" for name in COMMANDS
    }
