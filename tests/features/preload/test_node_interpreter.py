"""Python's own state in a worker, as far as `test_process` does not compare it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.preload import node_interpreter as interpreter

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "words",
    [[], ["-u"], ["-u", "-m"], ["train.py"], ["-B", "train.py"], ["-u", "none.py"], ["-u", "."]],
)
def test_other_commands_are_left_to_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    with pytest.raises(interpreter.NotResettable, match=r"^$"):
        interpreter.program([b"python", *map(os.fsencode, words)], (), set())


def test_a_program_is_a_script_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "train.py").write_text("1")
    program = interpreter.program([b"python", b"-u", b"sub/train.py", b"\xff"], ("/more",), set())
    assert program.code is not None
    assert program.code.co_filename == str(tmp_path / "sub/train.py")
    assert program.folders == [str(tmp_path / "sub"), "/more"]
    assert program.words == ["python", "-u", "sub/train.py", "\udcff"]


def test_or_a_module_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = interpreter.program([b"python", b"-u", b"-m", b"none"], (), set())
    assert (program.code, program.folders) == (None, [str(tmp_path)])


HIDING = {
    "a file": ("yaml.py", True),
    "a package": ("yaml/__init__.py", True),
    "a library": ("yaml.cpython-311-x86_64-linux-gnu.so", True),
    "a folder": ("yaml/data.txt", False),
    "data": ("yaml.txt", False),
    "another name": ("yaml2.py", False),
}


@pytest.mark.parametrize(("name", "hides"), HIDING.values(), ids=HIDING)
def test_a_module_of_the_folder_takes_the_place_of_another(
    tmp_path: Path, name: str, hides: bool
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    assert interpreter.hidden(str(tmp_path), {"yaml"}) == ("yaml" if hides else "")


def test_a_module_that_came_from_the_folder_is_the_same_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("only_here")
    assert interpreter.hidden(str(tmp_path), {"only_here"}) == ""
    del sys.modules["only_here"]


def test_a_folder_that_cannot_be_read_hides_nothing() -> None:
    assert interpreter.hidden("/none", {"yaml"}) == ""
