"""`--jax`, from the option to whole jobs."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.features.jax.plan import plan
from dsrun.launcher.specs.environment import JAX
from dsrun.launcher.specs.job import JobSpec

from ...support.checkout import CHECKOUT
from ...support.run_nodes import plan_of

if TYPE_CHECKING:
    from pathlib import Path

SPEC = JobSpec("job", plan_of(2), "/work")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "t.py").write_text(WORKER)
    return subprocess.run(
        [sys.executable, str(CHECKOUT / "bin/dsrun"), "--prefix", "", "--no_local_rank", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


WORKER = """
import os
names = ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "OMPI_COMM_WORLD_RANK", "JAX_LOCAL_DEVICE_IDS")
port = os.environ.get("JAX_COORDINATOR_ADDRESS", "").rpartition(":")[2]
print(port == os.environ["MASTER_PORT"], *map(os.environ.get, (*names, "DSRUN_JAX")))
"""


def test_the_job_has_a_mark_only_if_asked_for() -> None:
    assert plan(Options(), SPEC) == SPEC
    assert plan(Options(jax=True), SPEC).travel.values == {JAX: "1"}


def test_workers_get_the_variables(tmp_path: Path) -> None:
    ended = run(tmp_path, "--num_gpus", "2", "--accelerator", "cpu", "--jax", "t.py")
    assert ended.returncode == 0, ended
    assert sorted(ended.stdout.splitlines()) == ["True 2 0 0 0 None", "True 2 1 1 1 None"]


def test_workers_of_a_role_get_them(tmp_path: Path) -> None:
    role = '[[role]]\nname = "a"\nnodes = 1\nworkers = 1\nends = "job"\nscript = "t.py"\n'
    own = 'jax = true\nenv = { JAX_PROCESS_ID = "7" }\n'
    (tmp_path / "roles.toml").write_text(role + own)
    ended = run(tmp_path, "--accelerator", "cpu", "--roles", "roles.toml")
    assert ended.stdout == "True 1 7 0 0 None\n", ended


def test_without_the_option_there_are_none(tmp_path: Path) -> None:
    ended = run(tmp_path, "--num_gpus", "1", "t.py")
    assert ended.stdout == "False None None None None None\n", ended


def test_a_dry_run_shows_it(tmp_path: Path) -> None:
    ended = run(tmp_path, "--num_gpus", "1", "--jax", "--dry_run", "t.py")
    assert "each worker has the variables of jax" in ended.stdout, ended


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        ("--rdzv_backend c10d --rdzv_endpoint localhost:29400", "--rdzv_backend c10d"),
        ("--elastic_training --elastic_agent torch", "--elastic_agent torch"),
        ("--logs_specs named", "--logs_specs named"),
    ],
)
def test_torchs_agent_needs_the_port_itself(tmp_path: Path, words: str, flag: str) -> None:
    ended = run(tmp_path, "--num_gpus", "1", "--jax", *words.split(), "t.py")
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line == (
        f"dsrun: --jax: not with {flag}: torch's agent listens on the master port, which jax's"
        " coordinator needs; leave out one of the two"
    )
