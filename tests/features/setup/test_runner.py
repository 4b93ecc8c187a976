"""`--setup` in whole jobs on this machine: before the checks, once, and with its last words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.common.errors import NODE_UNUSABLE

from ...support.checkout import CHECKOUT

WORKER = "import os; print('up', os.path.exists('made'), flush=True)\n"


class Place:
    """A folder with a script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "t.py").write_text(WORKER)

    def __call__(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run dsrun."""
        return subprocess.run(
            [
                sys.executable,
                str(CHECKOUT / "bin/dsrun"),
                "--num_gpus",
                "2",
                "--prefix",
                "",
                *words,
            ],
            cwd=self.folder,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_it_is_done_before_the_workers_start_and_is_silent(place: Place) -> None:
    ended = place("--setup", "echo noise; touch made; echo x >>ran", "t.py")
    assert ended.returncode == 0, ended
    assert ended.stdout == "up True\nup True\n"
    assert "setup" not in ended.stderr
    assert (place.folder / "ran").read_text() == "x\n"


def test_a_slow_one_is_announced(place: Place) -> None:
    ended = place("--setup", "sleep 2.5", "t.py")
    assert "dsrun: --setup 'sleep 2.5' is running on localhost" in ended.stderr


def test_its_failure_names_the_node_and_the_last_lines(place: Place) -> None:
    script = "for i in 1 2 3 4; do echo line $i; done; printf 'bad \\033[2J'; exit 5"
    ended = place("--setup", script, "t.py")
    assert ended.returncode == NODE_UNUSABLE
    assert ended.stdout == ""
    text = r"localhost: --setup failed (exit code 5): line 3 | line 4 | bad \x1b[2J"
    assert text in ended.stderr


def test_it_has_the_variables_of_the_job(place: Place) -> None:
    ended = place("--export", "GIVEN=a b", "--setup", 'test "$GIVEN" = "a b"', "t.py")
    assert ended.returncode == 0, ended


def test_an_environment_that_it_makes_is_used(place: Place) -> None:
    """As `uv sync` would: there is no network."""
    make = f"test -e .venv/bin/activate || {sys.executable} -m venv --without-pip .venv"
    (place.folder / "t.py").write_text("import sys; print(sys.prefix)\n")
    words = ("--setup", make, "--venv_script", ".venv/bin/activate", "t.py")
    for _ in range(2):
        ended = place(*words)
        assert ended.returncode == 0, ended
        assert ended.stdout == f"{place.folder}/.venv\n" * 2


def test_files_alone_have_no_effect(place: Place) -> None:
    ended = place("--setup_if", "t.py", "t.py")
    assert "--setup_if has no effect without --setup" in ended.stderr


def test_the_plan_shows_it(place: Place) -> None:
    shown = place("--dry_run", "--setup", "true", "--setup_if", "uv.lock", "t.py").stdout
    assert "'true' is run once before the job, again only if uv.lock has changed" in shown
