"""How commands begin: from `bin/`, as an installation starts them, and as modules of Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import __version__

from .support.checkout import BIN, CHECKOUT, IMPORTABLE
from .support.limits import HANG

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
        if name in {"dsrun.launcher.runner", "dsrun.launcher.features"}:
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


@pytest.mark.parametrize("module", ["dsrun", "dsrun.launcher"])
def test_a_module_is_the_command_whatever_the_current_folder_has(
    tmp_path: Path, module: str
) -> None:
    for name in ("launcher", "json", "selectors", "signal", "socket", "tomllib"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")

    def run(*words: str) -> str:
        argv = [sys.executable, *words]
        env = {**os.environ, **IMPORTABLE}
        ran = subprocess.run(
            argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=HANG
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert run("-m", module, "--version") == f"dsrun {__version__}\n"
    said = run("-m", module, "--num_gpus=2", "--no_python", "echo", "here")
    assert sorted(said.splitlines()) == [
        f"localhost:{rank}| --local_rank={rank} here" for rank in range(2)
    ]
    if sys.version_info >= (3, 11):
        assert run("-P", "-m", module, "--version") == f"dsrun {__version__}\n"
