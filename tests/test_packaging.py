"""The package as it is built and installed, and the checkout as it is run.

With the folder of a release in DSRUN_TEST_DIST, as `make release` has it, that release is tried.
Otherwise one is made, once for all processes of a run.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from pathlib import Path

import pytest

from dsrun.launcher import __version__

from .release import __main__ as release
from .release import building, components
from .release.building import ROOMS
from .support.checkout import BIN, CHECKOUT
from .support.limits import HANG
from .support.needs import need

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
CURRENT = f"{sys.version_info.major}.{sys.version_info.minor}"


def run(*words: str | Path, cwd: Path = Path("/"), check: bool = True) -> str:
    """What a command prints on standard output, in an environment without PYTHON variables."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(
        list(words), cwd=cwd, env=environ, capture_output=True, text=True, check=False, timeout=HANG
    )
    assert ran.returncode == 0 or not check, f"{words}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def folders() -> set[str]:
    """The packages that there are: every folder of the two rooms with Python files in it."""
    files = (file for room in ROOMS for file in (CHECKOUT / room).rglob("*.py"))
    return {".".join(Path(installed(file)).parent.parts) for file in files}


def installed(file: Path) -> str:
    """Where a file of the checkout is in a wheel."""
    return f"dsrun/{file.relative_to(CHECKOUT)}".replace("/launcher/toplevel", "")


@cache
def interpreter(version: str) -> str:
    """The path of that version of Python if it really runs here, else ""."""
    if version == CURRENT:
        return sys.executable
    found = [shutil.which(f"python{version}")]
    found += map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for path in filter(None, found):
        ran = subprocess.run(
            [path, "-c", "import venv, ensurepip"], capture_output=True, check=False
        )
        if ran.returncode == 0:
            return path
    return ""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is needed to build; building leaves files behind."""
    return building.copy(tmp_path_factory.mktemp("source") / "dsrun-checkout")


def pip(*words: str | Path, python: str | Path = sys.executable) -> None:
    run(python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a release: the first process that needs it makes it, and others wait."""
    if given := os.environ.get("DSRUN_TEST_DIST"):
        return CHECKOUT / given
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # that of all processes
    made = folder / "dist"
    with (folder / "dist.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not [*made.glob("*.json")]:  # which is written last
            release.main([str(made)])
    return made


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (built,) = dist.glob("dsrun-*.whl")
    return built


def new_venv(version: str, folder: Path) -> Path:
    """A clean environment of that version; skips, by name, where there is no such Python."""
    path = interpreter(version)
    if not path:
        pytest.skip(f"no python{version} runs here")
    run(path, "-m", "venv", "--without-pip", folder)
    return folder / "bin"


def install(target: Path, *words: str | Path) -> None:
    """Install into the environment whose `bin` this is, with our own pip."""
    pip("--python", target / "python", "install", "--no-deps", "--no-compile", *words)


# -- what is built ------------------------------------------------------------------------------


def test_the_list_of_packages_is_that_of_the_folders() -> None:
    text = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^packages = \[(.*?)\]", text, re.DOTALL | re.MULTILINE)
    assert listed is not None
    assert sorted(re.findall(r'"(.*?)"', listed[1])) == sorted(folders())


@pytest.mark.tier("ci")
def test_the_wheel_holds_every_file_and_no_other_top_level_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not re.search(r"\.(dist-info|data)/", name)]
    expected = {
        installed(file)
        for room in ROOMS
        for file in (CHECKOUT / room).rglob("*")
        if file.suffix in {".py", ".css", ".js"} or file.name == "py.typed"
    }
    assert set(names) == expected
    assert {f"dsrun/{room}/py.typed" for room in ROOMS} <= expected


@pytest.mark.tier("ci")
def test_the_wheel_installs_every_manual_page_and_completion(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition(".data/data/")[2] for name in archive.namelist()}
    files = {file.relative_to(CHECKOUT) for file in (CHECKOUT / "share").rglob("*")}
    shared = {str(file) for file in files if (CHECKOUT / file).is_file()}
    assert {"share/man/man1/dsrun.1", "share/fish/vendor_completions.d/dsrun.fish"} <= shared
    assert shared - names == set()


@pytest.mark.tier("ci")
def test_the_wheel_installs_every_schema(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition(".data/data/share/dsrun/")[2] for name in archive.namelist()}
    schemas = {file.name for file in (CHECKOUT / "docs/schemas").glob("*.json")}
    assert "report.schema.json" in schemas
    assert schemas - names == set()


@pytest.mark.tier("ci")
def test_the_wheel_says_what_it_is_and_for_which_pythons(wheel: Path) -> None:
    """Every field is checked against the specification of the core metadata."""
    about = components.read(wheel)
    assert (about.name, str(about.version)) == ("dsrun", __version__)
    assert (about.license_expression, str(about.requires_python)) == ("Apache-2.0", ">=3.10")
    assert about.description_content_type == "text/markdown"
    assert about.description == (CHECKOUT / "README.md").read_text(encoding="utf-8")
    said = set(about.classifiers or ())
    assert {f"Programming Language :: Python :: {one}" for one in VERSIONS} <= said
    assert "Operating System :: POSIX :: Linux" in said
    assert "launcher" in (about.keywords or ())


@pytest.mark.tier("ci")
def test_the_source_archive_holds_what_the_wheel_is_built_from(dist: Path) -> None:
    (sdist,) = dist.glob("dsrun-*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    top = f"dsrun-{__version__}"
    assert {(one.uid, one.gid, one.uname, one.gname) for one in members} == {(0, 0, "", "")}
    assert len({one.mtime for one in members}) == 1
    names = {one.name.removeprefix(f"{top}/").partition("/")[0] for one in members}
    assert {"CHANGELOG.md", "README.md", "SECURITY.md", *ROOMS, "share"} <= names
    assert names & {"tests", ".venv"} == set()


# -- what is installed --------------------------------------------------------------------------

LOOK = """
import importlib.util, sys
import dsrun.launcher, dsrun.accelerator
print(dsrun.__version__, dsrun.launcher.__file__)
from dsrun import launch
print([name for name in ("launcher", "accelerator") if importlib.util.find_spec(name)])
"""

FIND = "import importlib.util; print(importlib.util.find_spec('dsrun'))"

BUILD = "import build, sys; build.ProjectBuilder(sys.argv[1]).build('editable', sys.argv[2])"
"""What `pip install --editable` does, with the setuptools that is installed here."""

SHOW = """
import os, sys
print("SAID", os.environ["RANK"], sys.argv[1:])
"""


def hostile(folder: Path) -> Path:
    """A training repository with modules of the same names as ours and those that we import."""
    folder.mkdir()
    (folder / "dsrun").mkdir()
    for name in (*ROOMS, "json", "signal", "selectors", "socket", "shlex", "runner"):
        (folder / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    (folder / "train").mkdir()
    (folder / "train" / "show.py").write_text(SHOW)
    return folder


def runs_a_job(*dsrun: str | Path, folder: Path) -> None:
    assert "usage: dsrun" in run(*dsrun, "--help", cwd=folder)
    assert run(*dsrun, "--version", cwd=folder) == f"dsrun {__version__}\n"
    said = run(*dsrun, "--num_gpus=2", "train/show.py", "a b", cwd=folder)
    assert sorted(line for line in said.splitlines() if "SAID" in line) == [
        f"localhost:{rank}| SAID {rank} ['--local_rank={rank}', 'a b']" for rank in range(2)
    ]


@pytest.mark.tier("ci")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_works_in_a_clean_environment(version: str, wheel: Path, tmp_path: Path) -> None:
    target = new_venv(version, tmp_path / "venv")
    install(target, "--no-index", wheel)
    found = run(target / "python", "-I", "-c", LOOK).splitlines()
    assert str(tmp_path / "venv") in found[0]
    assert found[1] == "[]"
    runs_a_job(target / "dsrun", folder=hostile(tmp_path / "work"))
    runs_a_job(target / "python", "-m", "dsrun", folder=tmp_path / "work")


@pytest.mark.tier("ci")
def test_the_wheel_works_from_a_folder_on_the_path(wheel: Path, tmp_path: Path) -> None:
    """`pip install --target`, as for a shared folder of modules."""
    target, python = tmp_path / "modules", new_venv(CURRENT, tmp_path / "venv") / "python"
    pip("install", "--no-deps", "--no-index", "--target", target, wheel)
    work, path = hostile(tmp_path / "work"), ("env", f"PYTHONPATH={target}")
    runs_a_job(*path, python, "-m", "dsrun", folder=work)
    runs_a_job(*path, python, target / "bin" / "dsrun", folder=work)
    assert (target / "share/man/man1/dsrun.1").is_file()


@pytest.mark.tier("ci")
def test_it_installs_and_runs_by_name_without_a_network(wheel: Path, tmp_path: Path) -> None:
    """In a network namespace that has nothing but its own loopback."""
    need("unshare", "ip")
    target = new_venv(CURRENT, tmp_path / "venv")
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    alone = ("unshare", "--net", *user, "sh", "-c", 'ip link set lo up; exec "$@"', "sh")
    found = ("--no-index", "--find-links", wheel.parent, "--no-deps", "dsrun")
    run(*alone, sys.executable, "-m", "pip", "--python", target / "python", "install", *found)
    runs_a_job(*alone, target / "dsrun", folder=hostile(tmp_path / "work"))


@pytest.mark.tier("ci")
def test_nothing_is_left_when_it_is_uninstalled(wheel: Path, tmp_path: Path) -> None:
    target = new_venv(CURRENT, tmp_path / "venv")
    install(target, "--no-index", wheel)
    runs_a_job(target / "dsrun", folder=hostile(tmp_path / "work"))
    pip("--python", target / "python", "uninstall", "--yes", "dsrun")
    assert list((tmp_path / "venv").rglob("*dsrun*")) == []
    assert run(target / "python", "-c", FIND) == "None\n"


@pytest.mark.tier("ci")
def test_an_editable_install_follows_the_checkout(source: Path, tmp_path: Path) -> None:
    target = new_venv(CURRENT, tmp_path / "venv")
    run(sys.executable, "-c", BUILD, source, tmp_path / "made")
    install(target, "--no-index", *(tmp_path / "made").iterdir())
    found = run(target / "python", "-I", "-c", LOOK).splitlines()
    assert found[0].endswith(f" {source}/launcher/__init__.py")
    assert found[1] == "[]"
    (source / "launcher" / "fresh.py").write_text("print('seen at once')\n")
    try:
        seen = run(target / "python", "-I", "-c", "import dsrun.launcher.fresh")
    finally:
        (source / "launcher" / "fresh.py").unlink()
    assert seen == "seen at once\n"
    runs_a_job(target / "dsrun", folder=hostile(tmp_path / "work"))


# -- the checkout -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_the_checkout_runs_where_nothing_is_installed(version: str, tmp_path: Path) -> None:
    target = new_venv(version, tmp_path / "venv")
    command = BIN / "dsrun"
    assert os.access(command, os.X_OK)
    runs_a_job(target / "python", command, folder=hostile(tmp_path / "work"))
    (tmp_path / "link").symlink_to(command)
    linked = run(target / "python", tmp_path / "link", "--help", cwd=tmp_path / "work")
    assert "usage: dsrun" in linked


def test_the_current_version_is_among_those_promised() -> None:
    text = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'requires-python = ">=3.10"' in text
    assert CURRENT in VERSIONS
