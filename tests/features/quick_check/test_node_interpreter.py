"""The workers' Python, described without running it."""

from __future__ import annotations

import os
import platform
import site
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.quick_check.node_interpreter import interpreter

if TYPE_CHECKING:
    from pathlib import Path

VERSION = platform.python_version().rstrip("+abrc")


def python_in(prefix: Path, version: str = "3.9") -> str:
    """Make what looks like an installation of Python; return its path."""
    (prefix / "bin").mkdir(parents=True)
    (prefix / f"lib/python{version}/site-packages").mkdir(parents=True)
    real = prefix / f"bin/python{version}"
    real.touch()
    (prefix / "bin/python").symlink_to(real.name)
    return str(prefix / "bin/python")


def test_this_python_is_known() -> None:
    found = interpreter(sys.executable, {})
    assert (found.path, found.version) == (sys.executable, VERSION)
    folders = filter(os.path.isdir, site.getsitepackages())  # Debian's names some that are not
    assert set(map(os.path.realpath, folders)) <= set(map(os.path.realpath, found.folders))


def test_another_python_has_the_version_of_its_files(tmp_path: Path) -> None:
    path = python_in(tmp_path / "py")
    folder = f"{tmp_path}/py/lib/python3.9/site-packages"
    assert interpreter(path, {}) == (path, "3.9", (folder,))
    header = tmp_path / "py/include/python3.9/patchlevel.h"
    header.parent.mkdir(parents=True)
    header.write_text('#define PY_VERSION              "3.9.18+"\n')
    assert interpreter(path, {}).version == "3.9.18"


def test_a_virtual_environment_is_apart_unless_it_says_otherwise(tmp_path: Path) -> None:
    base = python_in(tmp_path / "py")
    packages = tmp_path / "venv/lib/python3.9/site-packages"
    packages.mkdir(parents=True)
    (tmp_path / "venv/bin").mkdir()
    path = tmp_path / "venv/bin/python"
    path.symlink_to(base)
    config = tmp_path / "venv/pyvenv.cfg"
    config.write_text(f"home = {tmp_path}/py/bin\nversion = 3.9.7\n")
    own = (str(packages),)
    users = tmp_path / "home/.local/lib/python3.9/site-packages"
    users.mkdir(parents=True)
    environ = {"HOME": f"{tmp_path}/home"}
    assert interpreter(str(path), environ) == (str(path), "3.9.7", own)
    config.write_text(f"home = {tmp_path}/py/bin\ninclude-system-site-packages = true\n")
    shared = f"{tmp_path}/py/lib/python3.9/site-packages"
    assert interpreter(str(path), environ) == (str(path), "3.9", (str(users), *own, shared))
    config.rename(path.with_name("pyvenv.cfg"))
    assert interpreter(str(path), environ).folders == (str(users), *own, shared), "PEP 405"
    assert interpreter(str(path), {**environ, "PYTHONNOUSERSITE": "1"}).folders == (*own, shared)


def test_pythonpath_comes_first_and_no_folder_twice(tmp_path: Path) -> None:
    path = python_in(tmp_path / "py")
    extra = tmp_path / "extra"
    extra.mkdir()
    (tmp_path / "py/lib64").symlink_to("lib")
    environ = {"PYTHONPATH": f"{extra}::{extra}/:{tmp_path}/none"}
    assert interpreter(path, environ).folders == (
        str(extra),
        f"{tmp_path}/py/lib/python3.9/site-packages",
    )


@pytest.mark.parametrize("versions", [(), ("3.9",), ("3.9", "3.10")])
def test_what_is_not_known_is_empty(versions: tuple[str, ...], tmp_path: Path) -> None:
    for version in versions:
        (tmp_path / f"lib/python{version}").mkdir(parents=True)
    found = interpreter(f"{tmp_path}/bin/shim", {})
    assert found.version == ("3.9" if versions == ("3.9",) else "")
    assert found.folders == ()
