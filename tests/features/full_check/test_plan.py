"""The job of a dsrun-check, which is never started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.full_check.plan import plan_check

if TYPE_CHECKING:
    from pathlib import Path


def test_without_a_script_only_the_nodes_are_checked(tmp_path: Path) -> None:
    job = plan_check(Options(host="n1:2,n2:2", workdir=str(tmp_path)), ())
    assert [node.host.name for node in job.plan.nodes] == ["n1", "n2"]
    assert job.plan.program.module
    assert job.workdir == str(tmp_path)


def test_a_script_is_that_of_a_job(tmp_path: Path) -> None:
    (tmp_path / "x.py").touch()
    job = plan_check(Options(host="n1,n2", workdir=str(tmp_path)), ("x.py", "--lr", "1"))
    assert (job.plan.program.script, job.plan.program.module) == ("x.py", False)


def test_nodes_that_join_by_themselves_are_refused() -> None:
    with pytest.raises(UsageError, match="--no_ssh"):
        plan_check(Options(host="n1,n2", no_ssh=True, node_rank=0), ())


def test_only_a_script_has_a_venv_above_it(repo: Path) -> None:
    options = Options(host="n1,n2", workdir=str(repo / "src"))
    assert plan_check(options, ()).origin.python == "dsrun"
    job = plan_check(options, ("train.py",))
    assert job.origin.python == ".venv"
    assert job.plan.program.project_python == f"{repo}/.venv/bin/python"
