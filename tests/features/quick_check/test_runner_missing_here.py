"""A script or folder that nodes lack and this machine has: --sync copies it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.quick_check.runner_missing_here import (
    advised,
    folder_to_sync,
    with_names,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a script in it."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").touch()
    (tmp_path / "other.py").touch()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def test_what_is_in_the_current_folder(here: Path) -> None:
    lines = [
        f"n[1-64]: no such script: {here}/train.py",
        f"n1, n2: no such folder: {here} (--workdir names another)",
    ]
    assert advised(lines) == [f"{line}; it is on this machine: add --sync ." for line in lines]


def test_what_is_elsewhere_on_this_machine(here: Path) -> None:
    folder = here.parent
    (line,) = advised([f"n1: no such script: {folder}/other.py"])
    assert line.endswith(f"/other.py; it is on this machine: add --sync {folder}")


def test_the_root_is_not_copied(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    (line,) = advised([f"n1: no such script: {here}/train.py"])
    assert line.endswith(f"add --sync {here}")


def test_what_is_missing_here_too_and_other_problems(here: Path) -> None:
    lines = [f"n1: no such script: {here}/none.py", f"n1: no Python at {here}/train.py"]
    assert advised(lines) == lines


def test_scripts_that_are_here_in_place_of_a_missing_one(here: Path) -> None:
    other = here.parent
    lines = [
        f"n1: no such script: {here}/none.py",
        f"n1: no such script: {other}/none.py",
        f"n1: no such script: {here}/train.py",
        "n1: no such script: /no/such/none.py",
        "n1: no such folder: /no/such",
    ]
    here_one, other_one, copied, *as_before = with_names(lines)
    assert here_one == f"{lines[0]} (train.py is here)"
    assert other_one == f"{lines[1]} ({other}/other.py is there)"
    assert copied.endswith("add --sync .")
    assert as_before == lines[3:]


def test_the_folder_for_sync(here: Path) -> None:
    assert folder_to_sync(f"n1: no such folder: {here}") == "."
    assert folder_to_sync("n1: no such folder: /none") == ""
