"""Modules that lie in the workers' folder, beside those that are installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dsrun.launcher.cli.parser import parse
from dsrun.launcher.planning.modules import hidden, installed
from dsrun.launcher.planning.planner import make_plan


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository, in which some things are called like others that are installed."""
    folder = tmp_path / "work"
    for package in ("pytest", "mine", "scripts"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    (folder / "ruff").mkdir()  # without __init__.py the installed one is found all the same
    for name in ("queue.py", "train.py", "pluggy.txt"):
        (folder / name).touch()
    return folder


def test_what_a_folder_hides(work: Path) -> None:
    assert hidden(str(work), installed()) == ["pytest", "queue"]
    assert hidden(str(work), {"mine", "ruff", "train"}) == ["mine", "train"]
    assert hidden(str(work / "none"), installed()) == []


def test_what_is_installed_is_known_without_an_import(tmp_path: Path) -> None:
    assert {"pytest", "mypy", "os"} <= installed()
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    (site / "datasets").mkdir(parents=True)
    (site / "six.py").touch()
    assert installed(str(tmp_path)) == {"datasets", "six", *sys.stdlib_module_names}


def notes(*words: str) -> tuple[str, ...]:
    return make_plan(parse(words, {})).origin.notes


def test_it_is_told_where_it_is_new_to_the_job(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work)
    several = ("--host", "a:1,b:1")
    assert notes(*several, "scripts/t.py") == (
        f"on several nodes PYTHONPATH begins with {work}, as with deepspeed, so modules in that "
        "folder hide the installed pytest, queue (not so with torchrun's --nproc_per_node)",
    )
    for words in (
        (*several, "train.py"),  # python looks there first anyway
        (*several, "./train.py"),
        (*several, "-m", "scripts.t"),
        (*several, "--nproc_per_node=1", "scripts/t.py"),
        ("--host", "localhost:1", "scripts/t.py"),
        ("--num_gpus", "1", "scripts/t.py"),
    ):
        assert notes(*words) == ()
    python = tmp_path / "other" / "bin" / "python"
    (python.parent.parent / "lib" / "python3.12" / "site-packages" / "mine").mkdir(parents=True)
    python.parent.mkdir()
    for name in ("python", "activate"):
        python.with_name(name).touch()
    for tool in (f"--python={python}", "--venv_script=../other/bin/activate"):
        (note,) = notes(*several, tool, "scripts/t.py")
        assert "hide the installed mine, queue" in note


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (("--host", "a:1,b:1"), True),
        (("--host", "a:1"), False),
        (("--host", "localhost:1", "--force_multi"), True),
        (("--num_gpus", "2"), False),
        (("--host", "a:1,b:1", "--nnodes", "2"), False),
        (("--host", "a:1,b:1", "--nproc_per_node=1"), False),
        (("--host", "a,b", "--no_ssh", "--node_rank", "0"), False),
    ],
)
def test_the_folder_is_first_on_the_path_as_each_peer_has_it(
    words: tuple[str, ...], first: bool
) -> None:
    assert make_plan(parse([*words, "x.py"], {})).plan.program.folder_first is first
