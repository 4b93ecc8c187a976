"""Archives whose bytes follow from the files alone."""

from __future__ import annotations

import os
import subprocess
import tarfile
from io import BytesIO
from typing import TYPE_CHECKING

import pytest

from ..support.checkout import CHECKOUT
from . import building

if TYPE_CHECKING:
    from pathlib import Path


def archive(folder: Path, time: float) -> bytes:
    """Return an archive as a build of that time makes it."""
    folder.mkdir()
    for name in ("b", "a"):
        (folder / name).write_text(name)
        os.utime(folder / name, (time, time))
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as file:
        for name in ("b", "a") if time > 1e9 else ("a", "b"):
            file.add(folder / name, f"dsrun/{name}")
    return packed.getvalue()


def test_a_source_archive_has_no_trace_of_when_and_by_whom_it_was_built(tmp_path: Path) -> None:
    one, two = archive(tmp_path / "one", 1e9 - 0.5), archive(tmp_path / "two", 1e9 + 7.25)
    assert one != two
    assert building.settled(one, 86_400) == building.settled(two, 86_400)
    with tarfile.open(fileobj=BytesIO(building.settled(one, 86_400))) as file:
        assert [(member.name, member.mtime, member.uname) for member in file] == [
            ("dsrun/a", 86_400, ""),
            ("dsrun/b", 86_400, ""),
        ]
        content = file.extractfile("dsrun/a")
        assert content is not None
        assert content.read() == b"a"


def test_builds_that_differ_are_named(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.whl").write_text(name)
        (tmp_path / name / "a.tar.gz").write_text("same")
    one, two = ([*sorted((tmp_path / name).iterdir())] for name in ("one", "two"))
    assert building.different(one, two) == ["a.whl"]
    assert building.different(one, one) == []


def test_the_time_is_that_of_the_commit_unless_it_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert building.moment() == 1_700_000_000
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    git = ["git", "log", "-1", "--format=%ct"]
    told = subprocess.run(git, cwd=CHECKOUT, capture_output=True, text=True, check=False).stdout
    assert building.moment() == int(told or building.EARLIEST)
    monkeypatch.setattr(building, "CHECKOUT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert building.moment() == building.EARLIEST


def test_a_copy_has_the_modes_of_a_usual_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        made = building.copy(tmp_path / "copy")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in made.rglob("*") if path.is_file()} == {0o644}
    assert not [*made.rglob("__pycache__")]


def test_a_build_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 3\n")
    with pytest.raises(SystemExit, match="build --no-isolation"):
        building.build(tmp_path, tmp_path / "out", 86_400)
