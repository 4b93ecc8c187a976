"""The node's half of `--setup`: who runs the command, and when again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.setup.node_program import NAME, main

WRITE = "echo x >>ran"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, which is the current one."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "work"


def run(
    command: str = WRITE, job: str = "j1", files: tuple[str, ...] = (), *, once: bool = False
) -> int:
    return main([json.dumps({"command": command, "job": job, "files": files, "once": once})])


def times(folder: Path) -> int:
    file = folder / "ran"
    return len(file.read_text().split()) if file.exists() else 0


def test_a_job_runs_it_once(folder: Path) -> None:
    assert [run(), run(), run(job="j2"), run(job="j2")] == [0, 0, 0, 0]
    assert times(folder) == 2


def test_another_command_is_run(folder: Path) -> None:
    assert run() == run(f"true; {WRITE}") == 0
    assert times(folder) == 2


def test_with_files_it_is_run_again_if_one_has_changed(folder: Path) -> None:
    (folder / "lock").write_text("1")
    for content, expected in (("1", 1), ("1", 1), ("2", 2), ("2", 2)):
        (folder / "lock").write_text(content)
        assert run(job=os.urandom(4).hex(), files=("lock",), once=True) == 0
        assert times(folder) == expected


def test_a_failure_is_no_success(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(f"{WRITE}; echo no; exit 3") == 3
    assert run(f"{WRITE}; echo no; exit 3", once=True) == 3
    assert times(folder) == 2
    assert capfd.readouterr().out == "no\nno\n"
    assert run("kill -9 $$") == 137


def test_a_missing_file_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(files=("none",)) == 1
    assert capfd.readouterr().err == "dsrun: --setup_if none: no such file or directory\n"


@pytest.mark.parametrize("content", ["", "x", "[]", '{"key": 5}', "\0" * 9000])
def test_a_damaged_record_counts_as_none(folder: Path, content: str) -> None:
    (folder / NAME).write_text(content)
    assert run() == 0
    assert times(folder) == 1
    assert set(json.loads((folder / NAME).read_text())) == {"key", "job"}


def test_a_link_in_place_of_the_record_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("theirs")
    (folder / NAME).symlink_to(tmp_path / "other")
    assert run() == run() == 0
    assert times(folder) == 1, "the cache folder has the record"
    assert (tmp_path / "other").read_text() == "theirs"


@pytest.mark.parametrize("words", [[], ["x"], ["{}"], ["[]"], ['{"command": "true"}']])
def test_bad_arguments(words: list[str]) -> None:
    with pytest.raises(UsageError, match="setup: "):
        main(words)


def test_of_many_at_once_one_runs_it_and_the_others_wait(folder: Path) -> None:
    command = "test ! -e begun && touch begun && sleep 0.2 && echo x >>ran"
    asked = json.dumps({"command": command, "job": "j", "files": [], "once": False})
    program = (
        "import sys; from dsrun.launcher.features.setup.node_program import main;"
        "code = main(sys.argv[1:]); open('ran').close(); sys.exit(code)"
    )
    every = [subprocess.Popen([sys.executable, "-c", program, asked]) for _ in range(6)]
    assert [one.wait() for one in every] == [0] * 6
    assert times(folder) == 1
