"""A dsrun that was installed for itself, as by pipx: its Python has no torch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packages of the Python on which dsrun seems to run; no environment is active."""
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = tmp_path / "own" / "lib" / library / "site-packages"
    packages.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/own/bin/python")
    monkeypatch.setattr(sys, "path", ["/usr/lib/python3.zip", str(packages)])
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    return packages


@pytest.fixture
def repo(own: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a script in `src` and an environment, and the current folder."""
    folder = own.parents[3] / "repo"
    (folder / ".git").mkdir(parents=True)
    (folder / "src").mkdir()
    (folder / "src" / "train.py").touch()
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "python").symlink_to("/bin/sh")
    monkeypatch.chdir(folder)
    return folder
