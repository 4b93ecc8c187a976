"""paramiko as it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ...support.checkout import IMPORTABLE

if TYPE_CHECKING:
    from pathlib import Path

STAND_IN = """
import warnings
warnings.warn("TripleDES has been moved")
Channel = None
class SSHConfig:
    def lookup(self, name): return {}
"""


@pytest.mark.parametrize("module", ["library", "config_reader; config_reader.by_paramiko([], 'h')"])
def test_what_an_old_one_warns_of_is_not_shown(tmp_path: Path, module: str) -> None:
    folder = tmp_path / "paramiko"
    folder.mkdir()
    (folder / "__init__.py").write_text(STAND_IN)
    (folder / "auth_strategy.py").write_text("AuthStrategy = InMemoryPrivateKey = None\n")
    path = {"PYTHONPATH": f"{tmp_path}:{IMPORTABLE['PYTHONPATH']}"}
    ran = subprocess.run(
        [sys.executable, "-W", "always", "-c", f"from dsrun.launcher.backends.ssh import {module}"],
        env={**os.environ, **path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
