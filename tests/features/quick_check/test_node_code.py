"""Digests of a script, and of the Python files of a folder."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control.facts import MOST_FILES
from dsrun.launcher.features.quick_check import node_code as code

from ...support.cost import LINEAR, growth

if TYPE_CHECKING:
    from pathlib import Path


def test_a_script_is_told_by_its_content(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(b"print(1)\n")
    assert code.digest(code.content(str(script))) == hashlib.sha256(b"print(1)\n").hexdigest()
    assert code.digest(code.content(str(tmp_path / "none.py"))) == ""
    assert code.content(str(tmp_path)) is None
    os.truncate(script, code.LARGEST + 1)
    assert code.content(str(script)) is None


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("import torch\n", True),
        ("#!/usr/bin/env python\nif x:\n    from torch import nn\n", True),
        ("import os, torch as t", True),
        ("\tfrom torch.nn import Linear", True),
        ("\r\nimport torch.distributed as dist\r\n", True),
        ("import torchvision\n", False),
        ("from torchvision import models\n", False),
        ("import mytorch, os  # torch\n", False),
        ("x = 'import torch'\n", False),
        ("# import torch\n", False),
        ("from .torch import x\n", False),
        ("", False),
    ],
)
def test_a_script_that_imports_torch(tmp_path: Path, text: str, needed: bool) -> None:
    (tmp_path / "x.py").write_text(text)
    assert code.imports_torch(code.content(str(tmp_path / "x.py"))) is needed


def test_the_modules_of_a_script_and_their_folders(tmp_path: Path) -> None:
    text = (
        b"import os, sys\nimport time, mine as m, late\n  from pkg.part import x\n"
        b"from .near import y\nimport gone"
    )
    names = code.imported(text)
    assert names == ["mine", "late", "pkg", "gone"]
    for path in ("a/mine.py", "b/mine.py", "b/pkg/part.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    folders = [str(tmp_path / one) for one in ("none", "a", "b")]
    assert code.places(names, folders) == {"mine": folders[1], "pkg": folders[2]}
    assert code.imported(None) == []


@pytest.mark.parametrize("piece", ["import ", " ", "import a, ", "from ", "torc", "\n", "\t\r"])
def test_no_script_is_searched_long(piece: str) -> None:
    assert growth(lambda size: code.imports_torch(piece.encode() * size), 1000) < LINEAR


def test_python_files_are_found_by_name_and_size(tmp_path: Path) -> None:
    for name in (
        "a.py",
        "b/c.py",
        ".git/d.py",
        "b/__pycache__/e.py",
        "x.txt",
        "site-packages/f.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("12345")
    (tmp_path / "g.py").mkdir()
    (tmp_path / "gone.py").symlink_to("nowhere")
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "loop").symlink_to(".")
    assert code.python_files(str(tmp_path)) == {"a.py": 5, "b/c.py": 5, "link.py": 5}
    assert code.python_files(str(tmp_path / "none")) == {}


def test_too_many_files_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MOST_FILES):
        (tmp_path / f"{number}.py").touch()
    found = code.python_files(str(tmp_path))
    assert found is not None
    assert len(found) == MOST_FILES
    (tmp_path / "more.py").touch()
    assert code.python_files(str(tmp_path)) is None
    (tmp_path / "more.py").unlink()
    for number in range(3):
        (tmp_path / f"{number}.txt").touch()
    assert code.python_files(str(tmp_path)) is not None
    monkeypatch.setattr(code, "MOST_OTHERS", 2)
    assert code.python_files(str(tmp_path)) is None


def test_a_folder_with_data_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "DATA", 3)
    for name in ("a.py", "code/b.py", "data/c.py", "data/more/d.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for folder, files in (("code", 3), ("data", 3)):
        for number in range(files):
            (tmp_path / folder / f"{number}.jpg").touch()
    assert code.python_files(str(tmp_path)) == {"a.py": 0, "code/b.py": 0}


def test_a_slow_folder_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "SECONDS", -1.0)
    assert code.python_files(str(tmp_path)) is None


def test_a_digest_is_of_names_and_sizes() -> None:
    one = code.files_digest({"a.py": 1, "b.py": 2})
    assert one == code.files_digest({"b.py": 2, "a.py": 1})
    others = [{"a.py": 1}, {"a.py": 2, "b.py": 1}, {"a.py": 1, "c.py": 2}, {}]
    assert len({one, *map(code.files_digest, others)}) == 5
    assert code.files_digest(None) == ""
    assert code.files_digest({"\udcff.py": 1})
