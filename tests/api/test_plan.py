"""The job of a program, planned in the program."""

from __future__ import annotations

import base64
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.api.errors import LaunchError
from dsrun.launcher.api.plan import plan, planned
from dsrun.launcher.node.workers.calls import CALL

if TYPE_CHECKING:
    from pathlib import Path

    from dsrun.launcher.specs.job import JobSpec

SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_NODEID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_NNODES": "2",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_NODELIST": "n[1-2]",
}


def planned_job(target: Any, *args: object, **options: object) -> JobSpec:
    return plan(target, args, None, {"hosts": "n1:2,n2:2", **options}, planned)


def test_a_script(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.touch()
    spec = planned_job(path, "--lr", 0.1, grace="3s", export={"A": "1"}, max_restarts=2)
    program = spec.plan.program
    assert (program.script, program.args) == (str(path), ("--lr", "0.1"))
    assert [(node.host.name, node.slots) for node in spec.plan.nodes] == [
        ("n1", (0, 1)),
        ("n2", (0, 1)),
    ]
    assert (spec.supervision.grace, spec.travel.values["A"], spec.payload) == (3.0, "1", "")
    assert spec.elastic is not None


def test_a_module() -> None:
    program = planned_job("pkg.train", module=True).plan.program
    assert (program.script, program.module) == ("pkg.train", True)


def test_a_function_has_a_payload_and_a_name() -> None:
    spec = planned_job(divmod, 7, 2)
    program = spec.plan.program
    assert (program.script, program.args, program.local_rank) == (CALL, ("divmod",), False)
    function, args, kwargs = pickle.loads(base64.b64decode(spec.payload).partition(b"\n")[2])
    assert (function, args, kwargs) == (divmod, (7, 2), {})


def test_a_program_that_runs_on_every_node_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LaunchError, match="already runs on every node; start it on one of them"):
        plan(print, (), None, {}, planned)


def test_torchs_rendezvous_is_for_this_machine_alone() -> None:
    options = {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:29555", "nnodes": "1:2"}
    spec = plan(print, (), None, {**options, "nproc_per_node": 2}, planned)
    assert spec.plan.rendezvous is not None
    assert len(spec.plan.nodes) == 1


def test_slurm_outside_of_a_job_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(LaunchError, match=r"^--launcher slurm: only inside a Slurm job"):
        plan(print, (), None, {"launcher": "slurm"}, planned)


@pytest.mark.parametrize("option", [{"ends": "job"}, {"slots": "0-1"}, {"program": "a"}])
def test_options_of_roles_are_refused(option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(LaunchError, match=f"^--{name}: only for a job of several roles"):
        planned_job("pkg.train", module=True, **option)
