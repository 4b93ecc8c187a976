"""Which folder is synced, from the options."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.sync.plan import sync_spec
from dsrun.launcher.specs.environment import ForwardedEnv
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan
from dsrun.launcher.specs.policies import WorkerPolicy
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.rendezvous import Rendezvous
from dsrun.launcher.specs.sync import SyncSpec


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    (tmp_path / "proj/sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "proj")
    monkeypatch.setenv("PWD", str(tmp_path / "proj"))
    return tmp_path / "proj"


def _spec(
    sync: str = ".", script: str = "x.py", workdir: str = "", limit: str = "1GB", **more: str
) -> SyncSpec:
    options = Options(sync=sync, sync_limit=limit)
    program = Program(script, python=more.get("python"), project_python=more.get("project", ""))
    workers = WorkerPolicy(venv_script=more.get("venv", ""))
    path = {"PYTHONPATH": more["path"]} if "path" in more else {}
    plan = Plan((), program, "ssh", None, None)
    return sync_spec(
        options, JobSpec("job", plan, workdir or str(Path.cwd()), ForwardedEnv(path), workers)
    )


def test_the_current_folder(here: Path) -> None:
    assert _spec() == SyncSpec(str(here), 10**9, {str(here): ""}, "x.py")
    assert _spec("..") == SyncSpec(str(here.parent), 10**9, {str(here): "proj"}, "proj/x.py")


def test_paths_in_it_are_found(here: Path) -> None:
    made = _spec(
        script=f"{here}/sub/x.py",
        workdir=f"{here}/sub",
        venv=f"{here}/activate",
        python=f"{here}/.venv/bin/python",
        path=f"{here}/src:/opt:relative",
    )
    assert made.moved == {
        f"{here}/sub": "sub",
        f"{here}/sub/x.py": "sub/x.py",
        f"{here}/.venv/bin/python": ".venv/bin/python",
        f"{here}/activate": "activate",
        f"{here}/src": "src",
    }
    assert made.script == "sub/x.py"


def test_the_python_of_the_project_is_one_of_them(here: Path) -> None:
    python = f"{here}/.venv/bin/python"
    assert _spec(project=python).moved == {str(here): "", python: ".venv/bin/python"}
    assert _spec(project="/opt/env/bin/python").moved == {str(here): ""}


def test_a_folder_is_the_same_by_any_path(here: Path) -> None:
    link = here.parent / "link"
    link.symlink_to(here)
    assert _spec(str(link)).source == str(here)
    assert _spec(workdir=str(link / "sub")).moved == {str(link / "sub"): "sub"}


def test_a_script_elsewhere_is_there_on_all_nodes() -> None:
    assert _spec(script="/usr/bin/train.py").script == ""
    with pytest.raises(UsageError, match=r"the script \.\./x\.py is not in it"):
        _spec(script="../x.py")


def test_a_command_that_runs_on_each_node_copies_nothing() -> None:
    options, met = Options(sync="."), Rendezvous("c10d", "n1", "id", 1, 1, {}, "", 0, 1.0)
    plan = Plan((), Program("x.py"), "local", None, None, met)
    with pytest.raises(UsageError, match=r"^--sync: not with --rdzv_backend c10d, as each node"):
        sync_spec(options, JobSpec("job", plan, str(Path.cwd())))


def test_the_workers_must_run_in_it(here: Path) -> None:
    with pytest.raises(UsageError) as caught:
        _spec("sub")
    assert str(caught.value) == (
        f"--sync sub: the workers' folder {here} is not in it; sync a folder that contains it, or"
        " choose another with --workdir"
    )
    with pytest.raises(UsageError, match=r"^--sync none: no such folder$"):
        _spec("none")


@pytest.mark.parametrize(
    ("text", "size"),
    [("5", 5), ("1kB", 1000), ("500MB", 5 * 10**8), ("1.5GiB", 3 << 29), ("2 tb", 2 * 10**12)],
)
def test_sizes(text: str, size: int) -> None:
    assert _spec(limit=text).limit == size


@pytest.mark.parametrize("text", ["", "0", "-1", "GB", "1XB", "1B", "nan", "inf", "1e30", "1 2"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--sync_limit .*: expected a size such as 500MB"):
        _spec(limit=text)
