"""Whether dsrun's own Python is the workers', found without an import."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dsrun.launcher.planning.folders import active, is_same, own_fits


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({}, []),
        ({"VIRTUAL_ENV": "", "CONDA_PREFIX": ""}, []),
        ({"VIRTUAL_ENV": "/v"}, ["VIRTUAL_ENV"]),
        ({"CONDA_PREFIX": "/c", "VIRTUAL_ENV": "/v"}, ["VIRTUAL_ENV", "CONDA_PREFIX"]),
        (
            {"CONDA_PREFIX": "/c", "VIRTUAL_ENV": "/v/", "PATH": "/v/bin:/c/bin:/bin"},
            ["VIRTUAL_ENV", "CONDA_PREFIX"],
        ),
        (
            {"CONDA_PREFIX": "/c", "VIRTUAL_ENV": "/v", "PATH": "/c/bin:/v/bin:/bin"},
            ["CONDA_PREFIX", "VIRTUAL_ENV"],
        ),
        (
            {"CONDA_PREFIX": "/c", "VIRTUAL_ENV": "/v", "PATH": "/c/bin:/bin"},
            ["CONDA_PREFIX", "VIRTUAL_ENV"],
        ),
    ],
)
def test_the_environment_that_was_activated_last_is_first(
    environ: dict[str, str], names: list[str]
) -> None:
    assert active(environ) == names


@pytest.mark.usefixtures("own")
def test_without_torch_and_an_environment_it_does_not_fit() -> None:
    assert not own_fits({})
    assert not own_fits({"VIRTUAL_ENV": "/elsewhere"})


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("name", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_in_the_active_environment_it_fits(name: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("own")
    for folder in (tmp_path / "own", f"{tmp_path}/own/", tmp_path / "link"):
        assert own_fits({name: str(folder)})


@pytest.mark.usefixtures("own")
def test_only_the_environment_that_was_activated_last_counts(tmp_path: Path) -> None:
    both = {"CONDA_PREFIX": f"{tmp_path}/own", "VIRTUAL_ENV": "/v"}
    assert not own_fits(both)
    assert own_fits({**both, "PATH": f"{tmp_path}/own/bin:/v/bin"})


def test_with_torch_it_fits(own: Path) -> None:
    (own / "torch").mkdir()
    assert own_fits({"VIRTUAL_ENV": "/elsewhere"})
    assert "torch" not in sys.modules or sys.modules["torch"].__file__ != f"{own}/torch"


def test_torch_is_found_where_site_files_are_not_read(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", ["/usr/lib/python3.zip"])  # python -S
    (own / "torch").mkdir()
    assert own_fits({})


def test_torch_is_found_for_a_user_and_in_a_source_tree(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, source = tmp_path / "user" / "site-packages", tmp_path / "pytorch"
    for folder in (user, source):
        monkeypatch.setattr(sys, "path", [str(own), str(folder)])
        (folder / "torch").mkdir(parents=True)
        (folder / "torch" / "__init__.py").touch()
        assert own_fits({}), folder
    monkeypatch.setattr(sys, "path", [str(own)])
    assert not own_fits({})
    monkeypatch.setitem(sys.modules, "__editable___torch_2_9_0a0_finder", sys)
    assert own_fits({})


def test_a_folder_of_that_name_beside_a_program_is_not_torch(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(own)])  # python -m
    assert not own_fits({})


def test_torch_on_pythonpath_is_for_any_python(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module system may put it there, for another Python than dsrun's."""
    module = tmp_path / "apps" / "site-packages"
    (module / "torch").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(own), str(module)])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/x", str(module)]))
    assert not own_fits({})


def test_the_same_folder_by_two_names(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert is_same("/no/such/", "/no/such")
    assert is_same(str(tmp_path), f"{tmp_path}/link")
    assert not is_same("/no/such", str(tmp_path))
    assert not is_same("", str(tmp_path))
    assert not is_same("", "")
