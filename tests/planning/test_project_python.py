"""Which Python workers get where no option names one, and which must not be run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dsrun.launcher.planning import folders
from dsrun.launcher.planning.project_python import (
    NO_TORCH,
    ProjectPython,
    PythonEnvironment,
    choose,
    nearest,
    places,
)

from ..support.local_control import needs_root

ACTIVE, CONDA = (PythonEnvironment(name, "/a", "/a/bin/python") for name in folders.ACTIVE)
NEAR = PythonEnvironment(".venv", "/repo/.venv", "/repo/.venv/bin/python")


def environment(folder: Path, *, version: str = "3.12", python: str = "python") -> Path:
    """Make what looks like an environment."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / f"python{version}" / "site-packages").mkdir(parents=True)
    (folder / "bin" / python).symlink_to("/bin/sh")
    (folder / "pyvenv.cfg").touch()
    return folder


# -- the decision ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "path", "origin", "words"),
    [
        ([ACTIVE, NEAR], "/a/bin/python", "VIRTUAL_ENV", "the active environment (VIRTUAL_ENV)"),
        ([CONDA], "/a/bin/python", "CONDA_PREFIX", "the active environment (CONDA_PREFIX)"),
        ([NEAR], "/repo/.venv/bin/python", ".venv", "the nearest .venv above the script"),
    ],
)
def test_the_first_place_is_taken_and_said(
    found: list[PythonEnvironment], path: str, origin: str, words: str
) -> None:
    note = f"workers run on {path}, from {words}: {NO_TORCH}"
    assert choose(found) == ProjectPython(path, origin, (note,))


def test_a_place_that_cannot_be_used_is_named_and_the_next_one_is_taken() -> None:
    gone = PythonEnvironment("VIRTUAL_ENV", "/gone", problem="it has none")
    chosen = choose([gone, NEAR])
    assert (chosen.path, chosen.origin) == (NEAR.python, ".venv")
    assert chosen.notes[0] == "VIRTUAL_ENV=/gone is not used: it has none"
    assert len(chosen.notes) == 2


def test_without_a_place_it_is_dsruns_own() -> None:
    assert choose([]) == ProjectPython("", "dsrun", ())
    unsafe = NEAR._replace(problem="others can change it")
    note = "/repo/.venv is not used: others can change it"
    assert choose([unsafe]) == ProjectPython("", "dsrun", (note,))


def test_an_environment_that_dsrun_runs_on_ends_the_search() -> None:
    gone = PythonEnvironment("VIRTUAL_ENV", "/gone", problem="it has none")
    chosen = choose([gone, CONDA._replace(own=True), NEAR])
    assert (chosen.path, chosen.origin, len(chosen.notes)) == ("", "dsrun", 1)


def test_what_is_printed_of_a_name_is_one_line() -> None:
    (note,) = choose([PythonEnvironment("VIRTUAL_ENV", "/a\nb\x1b[1m", "", "no")]).notes
    assert note.isprintable()


# -- what there is --------------------------------------------------------------------------------


def test_the_active_environment_comes_first_and_the_nearest_venv_second(tmp_path: Path) -> None:
    active = environment(tmp_path / "active")
    near = environment(tmp_path / "repo" / ".venv", python="python3")
    found = list(places({"VIRTUAL_ENV": f"{active}/"}, str(tmp_path / "repo" / "src")))
    assert found == [
        PythonEnvironment("VIRTUAL_ENV", f"{active}/", f"{active}/bin/python"),
        PythonEnvironment(".venv", str(near), f"{near}/bin/python3"),
    ]


def test_without_a_script_no_venv_is_looked_for(tmp_path: Path) -> None:
    environment(tmp_path / ".venv")
    assert list(places({}, None)) == []


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        (".venv", "it is not an absolute path"),
        ("/no/such", "it has no bin/python that can be executed"),
    ],
)
def test_an_active_environment_that_is_none(folder: str, problem: str) -> None:
    assert list(places({"CONDA_PREFIX": folder}, None)) == [
        PythonEnvironment("CONDA_PREFIX", folder, problem=problem)
    ]


def test_the_environment_of_an_old_python_is_not_used(tmp_path: Path) -> None:
    for version, problem in (
        ("3.9", "it has Python 3.9, but 3.10 or newer is needed"),
        ("3.10", ""),
        ("3.x", ""),
    ):
        folder = environment(tmp_path / version, version=version)
        (place,) = places({"VIRTUAL_ENV": str(folder)}, None)
        assert place.problem == problem


def test_dsruns_own_environment_is_known(tmp_path: Path) -> None:
    own = str(Path(sys.executable).parent.parent)
    (tmp_path / "link").symlink_to(own)
    for name in (own, f"{own}/", str(tmp_path / "link")):
        (place,) = places({"VIRTUAL_ENV": name}, None)
        assert place.own, name


# -- the nearest .venv ----------------------------------------------------------------------------


def test_a_venv_is_looked_for_up_to_the_repository(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    (repo / "src" / "deep").mkdir(parents=True)
    environment(tmp_path / ".venv")
    assert nearest(f"{repo}/src/deep", "") == f"{tmp_path}/.venv"
    (repo / ".git").write_text("gitdir: elsewhere")  # as in a worktree or a submodule
    assert nearest(f"{repo}/src/deep", "") == ""
    environment(repo / ".venv")
    assert nearest(f"{repo}/src/deep", "") == f"{repo}/.venv"
    environment(repo / "src" / ".venv")
    assert nearest(f"{repo}/src/deep", "") == f"{repo}/src/.venv"


def test_a_venv_is_looked_for_up_to_the_home_folder(tmp_path: Path) -> None:
    home, link = tmp_path / "home" / "me", tmp_path / "link"
    (home / "code").mkdir(parents=True)
    link.symlink_to(home)
    environment(tmp_path / "home" / ".venv")
    for start in (home / "code", home, link / "code"):
        assert nearest(str(start), str(home)) == ""
    environment(home / ".venv")
    assert nearest(f"{home}/code", str(home)) == f"{home}/.venv"
    assert nearest(f"{link}/code", str(home)) == f"{link}/.venv", "as other hosts know it"


def test_a_file_or_a_broken_link_is_no_venv(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / ".venv").write_text("name")
    (tmp_path / "a" / ".venv").symlink_to("gone")
    near = environment(tmp_path / ".venv")
    assert nearest(f"{tmp_path}/a/b/", "") == str(near)
    assert nearest("/", "") in {"", "/.venv"}


# -- what others could have planted ---------------------------------------------------------------


def problem(repo: Path) -> str:
    *_, place = places({}, str(repo))
    return place.problem


@pytest.mark.parametrize("part", ["", "bin", "lib", "lib/python3.12/site-packages", "pyvenv.cfg"])
def test_a_venv_that_everybody_can_change_is_not_used(part: str, tmp_path: Path) -> None:
    folder = environment(tmp_path / ".venv")
    assert problem(tmp_path) == ""
    (folder / part).chmod(0o777)
    name = f"{folder}/{part}: " if part else ""
    assert problem(tmp_path) == (
        f"{name}everyone can change it; run chmod o-w, if it is yours;"
        f" --python {folder}/bin/python uses it anyway"
    )


@needs_root
@pytest.mark.parametrize("part", ["", "bin", "bin/python", "lib/python3.12", "pyvenv.cfg"])
def test_a_venv_of_another_user_is_not_used(part: str, tmp_path: Path) -> None:
    folder = environment(tmp_path / ".venv")
    os.chown(folder / part, 1234, -1, follow_symlinks=False)
    assert "belongs to another user (uid 1234); --python " in problem(tmp_path)


@needs_root
def test_a_link_to_a_venv_is_judged_by_both(tmp_path: Path) -> None:
    folder = environment(tmp_path / "envs" / "mine")
    (tmp_path / "repo").mkdir()
    link = tmp_path / "repo" / ".venv"
    link.symlink_to(folder)
    assert problem(tmp_path / "repo") == ""
    os.chown(link, 1234, -1, follow_symlinks=False)
    assert "another user" in problem(tmp_path / "repo"), "who has made it chose where it leads"
    os.chown(link, 0, -1, follow_symlinks=False)
    os.chown(folder, 1234, -1)
    assert "another user" in problem(tmp_path / "repo")


@needs_root
def test_others_of_a_group_can_plant_something_too(tmp_path: Path) -> None:
    folder = environment(tmp_path / ".venv")
    os.chown(folder / "bin", -1, 4321)
    (folder / "bin").chmod(0o775)
    assert "other members of its group can change it; run chmod g-w; --python " in problem(tmp_path)


def test_the_interpreter_itself_may_be_anybodys(tmp_path: Path) -> None:
    """A link leads to it, such as to the Python that a site has installed for all."""
    folder = environment(tmp_path / ".venv")
    shared = tmp_path / "python3.12"
    shared.write_text("#!/bin/sh\n")
    shared.chmod(0o777)
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").symlink_to(shared)
    assert problem(tmp_path) == ""
    (folder / "bin" / "python").unlink()
    shared.rename(folder / "bin" / "python")
    assert "everyone can change it" in problem(tmp_path)
