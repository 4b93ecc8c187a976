"""What a preloader imports, and what it says about it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dsrun.launcher.features.preload import node_imports as imports

from ...support.preloading import COMMON, preloader

pytestmark = pytest.mark.usefixtures("adopting")


def report(modules: list[str], folder: Path, *, looked: bool = True, **env: str) -> dict[str, Any]:
    """What a preloader of these modules reports, in a folder where modules are looked for."""
    found = folder if looked else None
    with preloader(modules, folder, found, env={**COMMON, **env}) as process:
        return process.report


def test_modules_are_imported_or_missing_or_failed(tmp_path: Path) -> None:
    (tmp_path / "lacks.py").write_text("import no_such_module")
    (tmp_path / "fails.py").write_text("raise OSError('on import')")
    (tmp_path / "leaves.py").write_text("import sys; sys.exit('gone')")
    (tmp_path / "half.py").write_text("this is no Python")
    modules = ["colorsys", "none", "lacks", "os.path", "os.none", "fails", "leaves", "half"]
    answer = report(modules, tmp_path)
    assert answer["modules"] == ["colorsys", "os.path"]
    assert [*answer["missing"]] == ["none", "lacks", "os.none"]
    assert answer["missing"]["lacks"] == "No module named 'no_such_module'"
    assert answer["failed"]["fails"] == "OSError: on import"
    assert answer["failed"]["leaves"] == "SystemExit: gone"
    assert answer["failed"]["half"].startswith("SyntaxError: invalid syntax")


def test_the_workers_folder_is_only_looked_at_for_what_is_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "colorsys.py").write_text("raise OSError('the wrong one')")
    (tmp_path / "mine.py").write_text("import other")
    (tmp_path / "other.py").write_text("")
    assert report(["colorsys", "mine"], tmp_path)["modules"] == ["colorsys", "mine"]
    assert report(["mine"], tmp_path, looked=False)["missing"] != {}


def test_variables_are_those_that_were_read_with_their_values_before(tmp_path: Path) -> None:
    text = "import os\nos.getenv('RANK')\nos.environ['MINE'] = os.getenv('MINE', '') + 'x'"
    (tmp_path / "reads.py").write_text(text)
    answer = report(["reads"], tmp_path, MINE="1", OTHER="2", OMP_PLACES="cores")
    read = answer["read"]
    assert (read["RANK"], read["MINE"], read["OMP_PLACES"]) == (None, "1", "cores")
    assert read["OMP_NUM_THREADS"] == "1"
    assert "OTHER" not in read
    assert "OMP_" in answer["prefixes"]


def test_files_are_those_that_are_not_installed(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    for name in ("mine.py", "pack/__init__.py", "pack/part.py"):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, ns=(1, 1))
    answer = report(["mine", "pack.part", "pytest"], tmp_path)
    names = ("mine.py", "pack/__init__.py", "pack/part.py")
    assert answer["files"] == {str(tmp_path / name): [1, 0] for name in names}
    (site,) = answer["folders"]
    assert Path(site) == Path(pytest.__file__).parents[1]
    assert answer["folders"][site] == Path(site).stat().st_mtime_ns


def test_a_file_that_has_changed_during_the_imports_counts_as_changed(tmp_path: Path) -> None:
    files = [tmp_path / "old.py", tmp_path / "new.py"]
    for at, file in enumerate(files):
        file.write_text("x")
        os.utime(file, ns=(at, at))
    times = imports.sources([*map(str, files), "/none.py", os.__file__], began=1)["files"]
    assert times == {str(files[0]): [0, 1], str(files[1]): [-1, 1], "/none.py": [-1, -1]}


def test_that_holds_for_a_file_of_this_moment(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    later = time.time_ns() + 10**12
    os.utime(tmp_path / "mine.py", ns=(later, later))
    assert report(["mine"], tmp_path)["files"] == {str(tmp_path / "mine.py"): [-1, 0]}


def test_a_module_may_be_in_the_way_of_the_program_itself(tmp_path: Path) -> None:
    for name in ("json", "socket", "gc", "server", "wire", "imports"):
        (tmp_path / f"{name}.py").write_text("raise OSError('the wrong one')")
    assert report(["colorsys"], tmp_path, PYTHONPATH=str(tmp_path))["modules"] == ["colorsys"]


def test_this_interpreter_is_no_part_of_the_answer(tmp_path: Path) -> None:
    assert not [one for one in report([], tmp_path)["files"] if "preload" in one], sys.path
