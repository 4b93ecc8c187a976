"""The whole command on a Python without torch: which Python workers get, by the way it is started.

Each way to install and start dsrun is given by the variables that it sets. Those of uv 0.13 were
read off `uv run`, `uv run --with`, `uvx` and `uv tool install`; those of others are documented.
"""

from __future__ import annotations

import json
import os
import subprocess
import venv
from typing import TYPE_CHECKING, NamedTuple

import pytest

from .support.checkout import BIN
from .support.limits import HANG

if TYPE_CHECKING:
    from pathlib import Path

SAYS = "import sys; print('on', sys.executable)"
"""A script that needs no torch."""

OWN = "{own}/bin/python"


class Way(NamedTuple):
    """A way to start dsrun.

    Attributes:
        environ: the variables that it sets.
        python: that of the workers.
        origin: where that comes from.
        torch: where torch is installed.
    """

    environ: dict[str, str]
    python: str
    origin: str
    torch: str = ""


def first(folder: str) -> str:
    return f"{folder}/bin:{os.environ['PATH']}"


PROJECT, NEAR = "{repo}/.venv/bin/python", ".venv"
WAYS = {
    "uvx --from . dsrun": Way({"UV": "/bin/uv", "PATH": first("{own}")}, PROJECT, NEAR),
    "uv tool install": Way({}, PROJECT, NEAR),
    "pipx install": Way({"PIPX_HOME": "{own}/../.."}, PROJECT, NEAR),
    "uv run, dsrun is a tool": Way(
        {
            "UV": "/bin/uv",
            "UV_RUN_RECURSION_DEPTH": "1",
            "VIRTUAL_ENV": "{repo}/.venv",
            "PATH": first("{repo}/.venv"),
        },
        PROJECT,
        "VIRTUAL_ENV",
    ),
    "uv run, dsrun is in the project": Way(
        {"UV": "/bin/uv", "VIRTUAL_ENV": "{own}", "PATH": first("{own}")}, OWN, "dsrun"
    ),
    "poetry run, dsrun by pipx": Way(
        {"POETRY_ACTIVE": "1", "VIRTUAL_ENV": "{env}", "PATH": first("{env}")},
        "{env}/bin/python",
        "VIRTUAL_ENV",
    ),
    "conda activate, dsrun by pipx": Way(
        {
            "CONDA_DEFAULT_ENV": "train",
            "CONDA_PREFIX": "{env}",
            "CONDA_SHLVL": "1",
            "PATH": first("{env}"),
        },
        "{env}/bin/python",
        "CONDA_PREFIX",
    ),
    "conda activate, dsrun is there": Way(
        {"CONDA_PREFIX": "{own}", "PATH": first("{own}")}, OWN, "dsrun"
    ),
    "conda's base below a virtual environment": Way(
        {"CONDA_PREFIX": "{own}", "VIRTUAL_ENV": "{env}", "PATH": first("{env}/bin:{own}")},
        "{env}/bin/python",
        "VIRTUAL_ENV",
    ),
    "a conda environment within a virtual environment": Way(
        {"CONDA_PREFIX": "{env}", "VIRTUAL_ENV": "{own}", "PATH": first("{env}/bin:{own}")},
        "{env}/bin/python",
        "CONDA_PREFIX",
    ),
    "module load, which activates an environment": Way(
        {"LOADEDMODULES": "pytorch/2.9", "VIRTUAL_ENV": "{env}", "PATH": first("{env}")},
        "{env}/bin/python",
        "VIRTUAL_ENV",
    ),
    "module load, torch for another Python": Way(
        {"LOADEDMODULES": "PyTorch/2.9", "PYTHONPATH": "{env}/lib/python/site-packages"},
        PROJECT,
        NEAR,
        "{env}/lib/python/site-packages",
    ),
    "module load, dsrun for that Python": Way(
        {"LOADEDMODULES": "PyTorch/2.9", "VIRTUAL_ENV": "{env}"}, OWN, "dsrun", "{packages}"
    ),
    "an environment that is gone": Way({"VIRTUAL_ENV": "/no/such"}, PROJECT, NEAR),
}
"""`own` is where dsrun is installed, `env` another environment, and `repo` has a `.venv`."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two environments and a repository with another one."""
    place = tmp_path_factory.mktemp("python").resolve()
    for name in ("own", "env", "repo/.venv"):
        venv.EnvBuilder(symlinks=True).create(place / name)
    (place / "repo" / ".git").mkdir()
    (place / "repo" / "src").mkdir()
    (place / "repo" / "src" / "train.py").write_text(SAYS)
    return place


def filled(text: str, place: Path) -> str:
    """Return a text with the names of folders."""
    (packages,) = (place / "own" / "lib").glob("python3*/site-packages")
    names = {name: str(place / name) for name in ("own", "env", "repo")}
    return text.format(packages=packages, **names)


def run(
    place: Path, *words: str, tool: str = "dsrun", **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a command on the Python without torch, with these variables."""
    return subprocess.run(
        [str(place / "own" / "bin" / "python"), str(BIN / tool), *words],
        cwd=place / "repo",
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "DSRUN_ACCELERATOR": "cpu",
            **{name: filled(value, place) for name, value in environ.items()},
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_each_way_to_start_dsrun_has_the_projects_python(way: Way, place: Path) -> None:
    torch = place / filled(way.torch, place) / "torch" if way.torch else None
    if torch:
        torch.mkdir(parents=True)
    try:
        ran = run(place, "--dry_run", "--json", "src/train.py", **way.environ)
    finally:
        if torch:
            torch.rmdir()
    assert ran.returncode == 0, ran.stderr
    plan = json.loads(ran.stdout)
    python = filled(way.python, place)
    assert [node["python"] for node in plan["nodes"]] == [python]
    assert plan["origin"]["python"] == way.origin
    said = [note for note in plan.get("notes", ()) if note.startswith("workers run on")]
    assert len(said) == (way.origin != "dsrun")
    assert all(python in note for note in said)


def test_workers_run_on_it_and_the_report_has_it_for_each_node(place: Path, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    ran = run(place, "--num_gpus=2", "--report_file", str(report), "src/train.py")
    python = f"{place}/repo/.venv/bin/python"
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == [f"localhost:{rank}| on {python}" for rank in (0, 1)]
    note = f"workers run on {python}, from the nearest .venv above the script"
    assert ran.stderr == f"dsrun: {note}: dsrun's own Python has no torch\n"
    assert json.loads(report.read_text())["pythons"] == [
        {"host": "localhost", "path": python, "origin": ".venv"}
    ]


def test_it_counts_where_the_script_of_an_environment_has_no_python(place: Path) -> None:
    (place / "modules.sh").write_text("export LOADED=1\n")
    script, python = f"{place}/modules.sh", f"{place}/repo/.venv/bin/python"
    ran = run(place, "--num_gpus=1", "--venv_script", script, "src/train.py")
    assert (ran.returncode, ran.stdout) == (0, f"localhost:0| on {python}\n")
    activate = f"{place}/env/bin/activate"
    ran = run(place, "--num_gpus=1", "--venv_script", activate, "src/train.py")
    assert (ran.returncode, ran.stdout) == (0, f"localhost:0| on {place}/env/bin/python\n")


def test_what_others_have_planted_is_not_run(place: Path, tmp_path: Path) -> None:
    planted = tmp_path / ".venv"
    (planted / "bin").mkdir(parents=True)
    (planted / "bin" / "python").write_text("#!/bin/sh\necho planted\n")
    (planted / "bin" / "python").chmod(0o755)
    (planted / "bin").chmod(0o777)
    (tmp_path / "train.py").write_text(SAYS)
    ran = run(place, "--num_gpus=1", str(tmp_path / "train.py"))
    assert (ran.returncode, ran.stdout) == (0, f"localhost:0| on {place}/own/bin/python\n")
    assert ran.stderr == (
        f"dsrun: {planted} is not used: {planted}/bin: everyone can change it; run chmod o-w,"
        f" if it is yours; --python {planted}/bin/python uses it anyway\n"
    )


def test_a_check_has_it_for_each_node_and_a_venv_only_for_a_script(place: Path) -> None:
    near, active = f"{place}/repo/.venv/bin/python", f"{place}/env/bin/python"
    for words, environ, python, origin in (
        (("src/train.py",), {}, near, ".venv"),
        ((), {}, f"{place}/own/bin/python", "dsrun"),
        ((), {"VIRTUAL_ENV": "{env}"}, active, "VIRTUAL_ENV"),
    ):
        ran = run(place, "--json", *words, tool="dsrun-check", **environ)
        found = json.loads(ran.stdout)
        assert found["python"] == origin, ran.stderr
        assert [node["python"] for node in found["nodes"]] == [python]
        assert (f"workers run on {python}" in ran.stderr) == (origin != "dsrun")
    ran = run(place, "src/train.py", tool="dsrun-check")
    assert f"localhost: workers run on {near} (.venv)\n" in ran.stdout


def test_a_command_on_hosts_takes_none(place: Path) -> None:
    ran = run(place, "--host=localhost", "--no_fold", "echo", "up", tool="dsrun-exec")
    assert ran.returncode == 0, ran.stderr
    assert "workers" not in ran.stderr


ROLES = """
[[role]]
name = "near"
nodes = 1
slots = 1
script = "src/train.py"
ends = "job"

[[role]]
name = "named"
beside = "near"
slots = 0
script = "src/train.py"
python = "{env}/bin/python"
ends = "wait"
"""


def test_each_role_has_a_python_of_its_own(place: Path, tmp_path: Path) -> None:
    (tmp_path / "roles.toml").write_text(filled(ROLES, place))
    report = tmp_path / "r.json"
    words = ("--host=localhost:1", "--roles", f"{tmp_path}/roles.toml")
    ran = run(place, *words, "--report_file", str(report))
    near, named = f"{place}/repo/.venv/bin/python", f"{place}/env/bin/python"
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == [
        f"named/localhost:0| on {named}",
        f"near/localhost:0| on {near}",
    ]
    lines = [line for line in ran.stderr.splitlines() if "workers run on" in line]
    note = f"workers run on {near}, from the nearest .venv above the script"
    assert lines == [f"dsrun: near: {note}: dsrun's own Python has no torch"]
    roles = json.loads(report.read_text())["roles"]
    found = {name: one["report"]["pythons"] for name, one in roles.items()}
    assert [one["path"] for one in found["near"]] == [near]
    assert found["named"] == [{"host": "localhost", "path": named, "origin": "--python"}]
    table = run(place, *words, "--dry_run").stdout
    assert f"python   {near} (.venv)\n" in table
    plan = json.loads(run(place, *words, "--dry_run", "--json").stdout)
    assert [node["python"] for node in plan["job"]["nodes"]] == [None], "it starts no worker itself"


def test_held_nodes_have_that_of_the_hold_where_a_job_has_none(place: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SAYS)
    active, name = f"{place}/env/bin/python", f"python-{os.getpid()}"
    argv = [str(place / "own/bin/python"), str(BIN / "dsrun-hold"), "--host=localhost:1"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(place), "VIRTUAL_ENV": f"{place}/env"}
    with subprocess.Popen(
        [*argv, "--accelerator=cpu", "--name", name], env=environ, stderr=subprocess.PIPE, text=True
    ) as hold:
        assert hold.stderr is not None
        lines = [hold.stderr.readline()]
        while lines[-1] and "holding 1 node" not in lines[-1]:
            lines.append(hold.stderr.readline())
        own = run(place, "--on", name, str(script))
        near = run(place, "--on", name, "src/train.py")
        hold.terminate()
        hold.stderr.read()
    note = f"workers run on {active}, from the active environment (VIRTUAL_ENV)"
    assert lines[0] == f"dsrun: {note}: dsrun's own Python has no torch\n"
    assert own.stdout == f"localhost:0| on {active}\n", own.stderr
    assert f"dsrun: workers run on {active}, which the hold chose" in own.stderr
    assert near.stdout == f"localhost:0| on {place}/repo/.venv/bin/python\n", near.stderr


def test_nothing_is_loaded_for_it_where_dsruns_own_python_fits(place: Path) -> None:
    name = "dsrun.launcher.planning.project_python"
    words = ("--dry_run", "src/train.py")
    for environ, loaded in (({"VIRTUAL_ENV": "{own}"}, False), ({"VIRTUAL_ENV": "{env}"}, True)):
        ran = run(place, *words, PYTHONPROFILEIMPORTTIME="1", **environ)
        assert (name in ran.stderr) == loaded
