"""Which Pythons a node has where it lacks the one that workers should run on."""

from __future__ import annotations

import sys
from pathlib import Path

from dsrun.launcher.common.wording import ANOTHER_PYTHON
from dsrun.launcher.features.quick_check.node_pythons import NAMED, problem

VERSION = ".".join(map(str, sys.version_info[:3]))
OWN = f"{sys.executable} ({VERSION})"


def test_a_node_that_has_only_dsruns_own() -> None:
    text = f"no Python at /no/py {ANOTHER_PYTHON}; there is {OWN}"
    assert problem("/no/py", []) == text
    assert problem("/no/py", ["/no", "bin"]) == text


def test_each_python_is_named_once_with_its_version(tmp_path: Path) -> None:
    (tmp_path / "python3.12").write_text("#!/bin/sh\n")
    (tmp_path / "python3.12").chmod(0o755)
    (tmp_path / "python3").symlink_to("python3.12")
    (tmp_path / "python3.11").symlink_to(sys.executable)
    (tmp_path / "python3.13").touch()  # not executable
    there = f"{tmp_path}/python3 (3.12), {tmp_path}/python3.11 ({VERSION})"
    assert problem("/no/py", [str(tmp_path)] * 2).endswith(f"; there are {there}")


def test_many_are_counted(tmp_path: Path) -> None:
    for minor in range(10, 16):
        (tmp_path / f"python3.{minor}").write_text("#!/bin/sh\n")
        (tmp_path / f"python3.{minor}").chmod(0o755)
    said = problem("/no/py", [str(tmp_path)])
    assert said.count("/python3.1") == NAMED
    assert said.endswith(f" and {7 - NAMED} more")


def test_a_link_to_a_python_that_is_not_there_is_named_as_such(tmp_path: Path) -> None:
    """An environment on a shared file system leads to a Python in a folder of one machine."""
    link = tmp_path / "python"
    link.symlink_to("/home/me/.local/share/uv/python/bin/python3.12")
    said = problem(str(link), [])
    assert said.startswith(
        f"no Python at {link}, a link to /home/me/.local/share/uv/python/bin/python3.12 ("
    )
    link.unlink()
    link.symlink_to("python3.99")
    assert f", a link to {tmp_path}/python3.99 (" in problem(str(link), [])
