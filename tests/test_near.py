"""Which tests are near to a change."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from . import near
from .near import Near, changed
from .support.checkout import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

RECORD = "launcher/head/run/record.py"
IMPORTERS = {
    RECORD: {
        "launcher/head/run/run.py",
        "tests/support/played_run.py",
        "tests/head/run/test_run.py",
    },
    "tests/support/played_run.py": {"tests/head/run/test_run_signals.py"},
}


def found(*paths: str) -> Near:
    return near.near(paths, IMPORTERS)


def test_a_module_has_its_own_tests_those_that_import_it_and_those_of_its_importers() -> None:
    groups = found(RECORD)
    assert {"tests/head/run/test_record.py", "tests/test_house.py"} <= groups.own
    assert groups.importing == {
        "tests/head/run/test_run.py",
        "tests/head/run/test_run_signals.py",  # through what the tests share
    }
    assert "tests/features/quick_check/test_runner_gate.py" in groups.beside, (
        "of run.py, by the table"
    )
    assert groups.beside & (groups.own | groups.importing) == set()


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("tests/head/run/test_record.py", "tests/head/run/test_record.py"),
        ("accelerator/detect.py", "tests/accelerator/test_detect.py"),
        ("docs/hosts.md", "tests/docs/test_pages.py"),
        ("launcher/cli/options.py", "tests/docs"),
        ("share/man/man1/dsrun.1", "tests/docs"),
        ("tests/recorded/frames.json", "tests/test_histories.py"),
        ("pyproject.toml", "tests/test_packaging.py"),
    ],
)
def test_what_a_file_is_tested_by(path: str, tests: str) -> None:
    assert tests in found(path).own


def test_what_is_gone_or_known_to_no_test_has_none() -> None:
    assert found("tests/head/test_gone.py", "hostfile.example", "launcher/gone.md").own == {
        "tests/docs/test_pages.py"
    }


@pytest.mark.parametrize("tests", [one for group in near.ELSEWHERE.values() for one in group])
def test_the_table_names_tests_that_are_there(tests: str) -> None:
    assert (CHECKOUT / tests).exists()


def test_importers_of_the_checkout() -> None:
    importers = near.all_importers()
    assert "launcher/runner.py" in importers["launcher/__init__.py"]
    assert "tests/test_near.py" in importers["tests/near.py"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A branch that has left main: a file committed, one changed, one new."""

    def git(*words: str) -> None:
        own = ("-c", "user.name=me", "-c", "user.email=me@here")
        subprocess.run(["git", *own, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--initial-branch=main")
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    git("add", ".")
    git("commit", "-m", "first")
    git("checkout", "-b", "branch")
    (tmp_path / "a").write_text("other")
    git("commit", "-am", "second")
    git("checkout", "main")
    (tmp_path / "c").write_text("of main alone")
    git("commit", "-am", "third")
    git("checkout", "branch")
    (tmp_path / "b").write_text("not committed")
    (tmp_path / "with space").write_text("new")
    return tmp_path


def test_what_has_changed_since_main(repository: Path) -> None:
    assert changed("main", repository) == ["a", "b", "with space"]
    assert changed("HEAD", repository) == ["b", "with space"]
    with pytest.raises(SystemExit, match="merge-base no-such HEAD"):
        changed("no-such", repository)


def test_no_files_are_begun_once_the_time_is_over(capfd: pytest.CaptureFixture[str]) -> None:
    groups = Near(frozenset(["tests/no_such.py"]), frozenset(), frozenset())
    assert near.run(groups, time.monotonic() - 1, ()) == 0
    assert capfd.readouterr().out == "out of time; not run: tests/no_such.py\n"
    assert near.run(groups, time.monotonic() + 600, ()) == pytest.ExitCode.USAGE_ERROR
