"""Scripts of a folder that are named in place of one that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.scripts import present

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("train.py", "eval.py", "run.sh", "my train.py", "notes.txt", "pkg/mod.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("nothere.py", " (eval.py, 'my train.py', train.py are here)"),
        ("pkg/nothere.py", " (pkg/mod.py is there)"),
        ("no/such/folder.py", ""),
        ("notes", ""),
    ],
)
def test_what_is_there_in_its_place(folder: Path, script: str, said: str) -> None:
    assert present(script, str(folder)) == said


def test_few_of_many_scripts_are_named(folder: Path) -> None:
    for name in "abcdef":
        (folder / "pkg" / f"{name}.py").touch()
    said = " (pkg/a.py, pkg/b.py, pkg/c.py, pkg/d.py and 3 more are there)"
    assert present("pkg/nothere.py", str(folder)) == said
