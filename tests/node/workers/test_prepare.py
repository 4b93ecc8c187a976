"""A task on a node before its start: what is detected, and its problems."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.features.quick_check.node_pythons import problem
from dsrun.launcher.node.checks import preflight
from dsrun.launcher.node.checks.file_checks import check
from dsrun.launcher.node.machine import ports
from dsrun.launcher.node.workers.prepare import NodeSetup
from dsrun.launcher.specs.policies import BindingPolicy
from dsrun.launcher.specs.program import Program

from ...support.node_setup import node_setup
from ...support.tasks import task_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def noted() -> list[str]:
    """Lines for the user."""
    return []


@pytest.fixture
def make(tmp_path: Path, noted: list[str]) -> Iterator[Callable[..., NodeSetup]]:
    """Prepare a task."""
    made = []

    def setup(program: Program | None = None, **fields: Any) -> NodeSetup:
        usual: dict[str, Any] = {
            "dsrun": __version__,
            "job_id": "j",
            "host": "n0",
            "program": program or Program("true", no_python=True),
            "workdir": str(tmp_path),
            "env": {"DSRUN_ACCELERATOR": "cpu"},
            "slots": (0, 1),
            "port": None,
        }
        made.append(node_setup(task_of(**usual | fields), noted.append))
        return made[-1]

    yield setup
    for one in made:
        one.close()


def test_a_task_that_nothing_is_wrong_with(make: Callable[..., NodeSetup], tmp_path: Path) -> None:
    setup = make()
    hello = setup.hello()
    assert (hello.problems, hello.slots, hello.port, hello.log_dir) == ((), 2, None, "")
    assert (setup.workdir, setup.python) == (os.fsencode(tmp_path), os.fsencode(sys.executable))
    assert setup.base["PATH"] == os.environ["PATH"]


def test_all_that_is_wrong_is_told_together(
    make: Callable[..., NodeSetup], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "host_problem", lambda host: f"not {host}")
    found = make(dsrun="0", workdir="/no/such", by_engine=True, env={"DSRUN_ACCELERATOR": "x"})
    problems = found.hello().problems
    assert problems[0].endswith("the runner is dsrun 0: install the same version")
    assert problems[1:3] == ("not n0", "no such folder: /no/such (--workdir names another)")
    assert len(problems) == 4
    assert "x" in problems[3]


def test_hosts_are_compared_where_an_engine_has_chosen(
    make: Callable[..., NodeSetup], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "host_problem", lambda host: f"not {host}")
    assert make().hello().problems == ()


def test_a_program_is_looked_for_in_its_folder(make: Callable[..., NodeSetup]) -> None:
    (problem,) = make(Program("train.py")).hello().problems
    assert problem.startswith("no such script: ")


@pytest.mark.parametrize(
    ("named", "found"), [("bin/py", "{folder}/bin/py"), ("/bin/sh", "/bin/sh"), ("sh", "/bin/sh")]
)
def test_pythons(
    make: Callable[..., NodeSetup],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: str,
    found: str,
) -> None:
    """A path is relative to the workers' folder, a name is searched on PATH."""
    monkeypatch.setenv("PATH", "/no/such:/bin:/usr/bin")
    setup = make(Program("m", module=True, python=named))
    assert os.fsdecode(setup.python) == found.replace("{folder}", str(tmp_path))


def test_a_python_that_is_nowhere(
    make: Callable[..., NodeSetup], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/no/such:/bin")
    found = make(Program("m", module=True, python="no-python")).hello().problems
    assert found == (problem("/no/such/no-python", ["/bin"]),)


def test_a_venv_script_is_sourced(make: Callable[..., NodeSetup], tmp_path: Path) -> None:
    """The workers run on its Python, unless another is named."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/bin/sh")
    script = tmp_path / "activate"
    script.write_text(f"export IN_VENV=1; PATH={tmp_path}/bin:$PATH")
    setup = make(Program("m", module=True), venv_script=str(script))
    assert setup.hello().problems == ()
    assert setup.base["IN_VENV"] == "1"
    assert os.fsdecode(setup.python) == f"{tmp_path}/bin/python"
    assert setup.base["PATH"].startswith(str(tmp_path))
    other = make(Program("m", module=True, python="/bin/sh"), venv_script=str(script))
    assert other.python == b"/bin/sh"
    third = make(Program("m", module=True, project_python="/bin/sh"), venv_script=str(script))
    assert third.hello().python == f"{tmp_path}/bin/python"


def test_the_python_of_the_project(make: Callable[..., NodeSetup], tmp_path: Path) -> None:
    (tmp_path / "script").write_text("X=1")
    for script in ("", str(tmp_path / "script")):
        setup = make(Program("m", module=True, project_python="/bin/sh"), venv_script=script)
        assert (setup.hello().problems, setup.hello().python) == ((), "/bin/sh")
    (lacks,) = make(Program("m", module=True, project_python="/no/py")).hello().problems
    assert lacks == problem("/no/py", os.environ["PATH"].split(":"))
    bare = make(Program("sh", no_python=True, project_python="/bin/sh"))
    assert bare.hello().python == ""


@pytest.mark.parametrize(
    ("script", "problem"),
    [("/no/such", "no such file or directory"), ("{folder}/fails", "it ended with code 3")],
)
def test_a_venv_script_that_is_of_no_use(
    make: Callable[..., NodeSetup], tmp_path: Path, script: str, problem: str
) -> None:
    (tmp_path / "fails").write_text("exit 3")
    script = script.replace("{folder}", str(tmp_path))
    found = make(venv_script=script)
    assert found.hello().problems == (f"--venv_script {script}: {problem}",)
    assert found.python == os.fsencode(sys.executable)


def test_a_venv_script_is_not_sourced_in_a_folder_that_is_not_there(
    make: Callable[..., NodeSetup],
) -> None:
    problems = make(venv_script="/no/such/too", workdir="/no/such").hello().problems
    assert problems == ("no such folder: /no/such (--workdir names another)",)


def test_slots_are_counted_where_nobody_says(make: Callable[..., NodeSetup]) -> None:
    assert make(slots=None).hello().slots >= 1


def test_slots_that_are_no_devices(make: Callable[..., NodeSetup]) -> None:
    setup = make(env={"DSRUN_ACCELERATOR": "cuda", "CUDA_VISIBLE_DEVICES": ""}, slots=(5,))
    (problem,) = setup.hello().problems
    assert problem.startswith("no NVIDIA GPUs here, limited by CUDA_VISIBLE_DEVICES=;")
    assert setup.hello().slots == 1


def test_cores_that_cannot_be_bound(make: Callable[..., NodeSetup]) -> None:
    policy = BindingPolicy("core", core_list="99999")
    (problem,) = make(binding=policy).hello().problems
    assert "99999" in problem
    assert make(binding=policy._replace(bind_to="none")).hello().problems == ()


def test_who_else_binds_threads_is_noted(
    make: Callable[..., NodeSetup], noted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOMP_CPU_AFFINITY", "0")
    make(slots=(0,))
    assert noted == []
    make(slots=(0,), binding=BindingPolicy("core"))
    (note,) = noted
    assert "GOMP_CPU_AFFINITY" in note


def test_a_port_is_reserved_until_it_is_let_go(make: Callable[..., NodeSetup]) -> None:
    setup = make(port=0)
    port = setup.hello().port
    assert port
    assert ports.listeners(port)
    setup.open_to_store()
    assert not ports.listeners(port)
    assert ports.is_held(port)
    setup.close()
    assert not ports.is_held(port)
    setup.close()


def test_a_synced_folder_is_released_with_the_rest(make: Callable[..., NodeSetup]) -> None:
    task, released = make().task, list[bool]()
    found = check(task)._replace(release=lambda: released.append(True))
    setup = NodeSetup(task, pytest.fail, found)
    assert released == []
    setup.close()
    assert released == [True]


def test_a_port_that_is_taken(make: Callable[..., NodeSetup]) -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        setup = make(port=port)
        (problem,) = setup.hello().problems
    assert problem.startswith(f"port {port} is taken by ")
    assert setup.hello().port is None
    setup.open_to_store()


def test_the_folder_of_logs_is_known_before_the_start(
    make: Callable[..., NodeSetup], tmp_path: Path
) -> None:
    setup = make(log_dir="a/logs")
    assert setup.hello().log_dir == f"{tmp_path}/a/logs/j"
    assert (tmp_path / "a" / "logs").is_dir()
    assert not (tmp_path / "a" / "logs" / "j").exists()
    assert make().folder is None


@pytest.mark.parametrize(
    ("log_dir", "problem"),
    [
        ("file", "is a file; name a folder"),
        ("file/logs", "cannot be created or written to: not a directory"),
        ("/proc/logs", "cannot be created or written to: no such file or directory"),
    ],
)
def test_a_folder_of_logs_that_cannot_be(
    make: Callable[..., NodeSetup], tmp_path: Path, log_dir: str, problem: str
) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / log_dir
    assert make(log_dir=log_dir).hello().problems == (f"--log_dir {path}: {problem}",)


def test_no_folder_is_made_where_something_is_wrong(
    make: Callable[..., NodeSetup], tmp_path: Path
) -> None:
    make(dsrun="0", log_dir="logs")
    assert not (tmp_path / "logs").exists()


def test_workers_can_begin_with_another_environment_but_see_the_same_devices(
    make: Callable[..., NodeSetup], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "activate"
    script.write_text('export SEEN="$GIVEN/$OWN"\n')
    monkeypatch.setenv("OWN", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    base = {
        "GIVEN": "\udcff",
        "PATH": "/nowhere",
        "CUDA_VISIBLE_DEVICES": "0",
        "GPU_DEVICE_ORDINAL": "1",
    }
    assert make(base=base).base == {
        "GIVEN": "\udcff",
        "PATH": "/nowhere",
        "CUDA_VISIBLE_DEVICES": "2,3",
    }
    base["PATH"] = os.environ["PATH"]
    assert make(base=base, venv_script=str(script)).base["SEEN"] == "\udcff/"
