"""The files that a job writes: none of them is one of its inputs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dsrun.launcher.cli.options import all_options
from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.planning import output_files

READ = [name for name, row in all_options().items() if row.file == "read"]
WRITTEN = [name for name, row in all_options().items() if row.file == "written"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DS_ENV_FILE", raising=False)
    for name in ("t.py", "in"):
        (tmp_path / name).touch()
    (tmp_path / "home").mkdir()
    return tmp_path


def notes(*words: str) -> tuple[str, ...]:
    command = parse(words, {})
    read = output_files.inputs(command.options, command.program[0])
    return output_files.check(command.options, read)


def refused(*words: str) -> str:
    with pytest.raises(UsageError) as caught:
        notes(*words)
    return str(caught.value)


@pytest.mark.parametrize("option", READ)
@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_that_an_option_reads(folder: Path, option: str, name: str) -> None:
    """Empty ones, too: what is in a file tells nothing about those."""
    said = refused(f"--{option}", "in", f"--{name}", "./in", "t.py")
    assert said == f"--{name} {folder}/in: is also --{option}; name another file"


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["t.py"], "t.py"),
        (["--no_python", "./t.py"], "t.py"),
        (["--workdir", "sub", "w.py"], "sub/w.py"),
        (["-m", "package.mod"], "package/mod.py"),
        (["-m", "package.mod"], "package/__init__.py"),
        (["-m", "package"], "package/__main__.py"),
        (["package"], "package/__main__.py"),
        (["t.py"], "link"),
        (["t.py"], "hard"),
    ],
)
def test_the_script(folder: Path, name: str, words: list[str], file: str) -> None:
    modules = ("package/mod.py", "package/__init__.py", "package/__main__.py")
    for one in ("sub/w.py", *modules):
        (folder / one).parent.mkdir(exist_ok=True)
        (folder / one).touch()
    (folder / "link").symlink_to("t.py")
    os.link("t.py", "hard")
    said = refused(f"--{name}", file, *words)
    assert re.fullmatch(rf"--{name} {folder}/{file}: is also the script; name another file", said)


@pytest.mark.parametrize("file", ["dsrun.toml", ".deepspeed_env", ".dsrun_env", "home/.dsrun_env"])
def test_a_file_that_is_read_without_being_named(folder: Path, file: str) -> None:
    (folder / file).touch()
    assert "is also a file that dsrun reads" in refused("--report_file", file, "t.py")


@pytest.mark.parametrize("name", WRITTEN)
def test_a_name_of_no_file(folder: Path, name: str) -> None:
    """What could be known before the start is not found after hours."""
    (folder / "loop").symlink_to("loop")
    if all_options()[name].default is None:  # else "" is none, as without the option
        assert refused(f"--{name}=", "t.py") == f"--{name}: the name is empty; name a file"
    assert refused(f"--{name}={'x' * 256}", "t.py").endswith("x: file name too long")
    assert refused(f"--{name}=loop", "t.py").startswith(f"--{name} loop: too many levels of")


def test_two_files_that_are_written_are_two_files() -> None:
    said = "is also --report_file; name another file"
    assert said in refused("--report_file", "new", "--metrics_file", "home/../new", "t.py")
    assert "is also --log_dir" in refused("--log_dir", "new", "--report_file", "new", "t.py")


def test_a_file_that_has_somebodys_work(folder: Path) -> None:
    (folder / "v.py").write_text("import torch\n")
    for name in ("report_file", "metrics_file"):
        said = refused(f"--{name}", "v.py", "t.py")
        assert said.startswith(f"--{name} v.py: has content that dsrun did not write; ")


def test_what_loses_nothing_is_accepted_and_odd_endings_are_told() -> None:
    os.mkfifo("pipe")
    for path in ("pipe", "/dev/stdout", "/dev/null", "new.json", "in"):
        assert notes("--report_file", path, "t.py") == ()
    assert notes("--report_file", "r.xml", "--metrics_file", "m.prom", "t.py") == (
        "--report_file r.xml: JSON is written there; a name ending in .html gets a picture",
    )
    assert notes("--env_file", "/dev/null", "--report_file", "/dev/null", "t.py") == ()


def test_a_suggested_value_is_no_file(folder: Path) -> None:
    (folder / "slurm").touch()
    assert notes("--rank_order", "slurm", "--report_file", "slurm", "t.py") == ()
