"""From the options of dsrun-hold to the nodes that are held."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.hold.plan import plan_hold


def options(**given: object) -> Options:
    return Options(**given)


def test_the_nodes_of_a_job_that_is_never_started() -> None:
    spec = plan_hold(options(host="w1:2,w2:2", launcher="openssh", preload="torch"), "lab", 60.0)
    job = spec.job
    assert (spec.name, spec.idle_timeout) == ("lab", 60.0)
    assert [(node.host.name, node.slots) for node in job.plan.nodes] == [
        ("w1", (0, 1)),
        ("w2", (0, 1)),
    ]
    assert (job.held, job.workdir, job.plan.launcher) == (True, str(Path.cwd()), "openssh")
    assert job.plan.program.folder_first, "as for most jobs on several nodes"
    assert job.workers.preload == ("torch",)
    assert job.settings.elastic, "an engine goes on without a node"
    assert job.settings.bind, "an engine leaves it to the runs"
    assert job.settings.python == sys.executable


def test_a_short_name_of_its_own() -> None:
    one, other = (plan_hold(options(host="w1:2", launcher="openssh")) for _ in range(2))
    assert one.name != other.name
    assert len(one.name) == 6
    assert one.job.job_id.endswith(one.name)


@pytest.mark.parametrize("name", ["", "a b", "-x", "x" * 80, "../x"])
def test_names_are_short_words(name: str) -> None:
    if name:
        with pytest.raises(UsageError, match="--name"):
            plan_hold(options(host="w1:2", launcher="openssh"), name)


def test_nodes_that_join_by_themselves_cannot_be_held() -> None:
    with pytest.raises(UsageError, match="--no_ssh"):
        plan_hold(options(no_ssh=True))


def test_this_machine_is_held_without_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in os.environ if one.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    job = plan_hold(options(num_gpus=2)).job
    assert (job.plan.launcher, job.workdir) == ("local", "/")
    assert [node.slots for node in job.plan.nodes] == [(0, 1)]


@pytest.mark.usefixtures("repo")
def test_held_nodes_have_the_active_environment_and_no_venv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(host="w1:2,w2:2", launcher="openssh", preload="torch")
    assert plan_hold(given).job.plan.program.project_python == ""
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to("/bin/sh")
    monkeypatch.setenv("CONDA_PREFIX", f"{tmp_path}/env")
    job = plan_hold(given).job
    assert job.plan.program.project_python == f"{tmp_path}/env/bin/python"
    assert (job.origin.python, job.settings.python) == ("CONDA_PREFIX", sys.executable)
