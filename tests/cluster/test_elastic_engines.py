"""Elastic jobs that an MPI launcher or Slurm has started: they need not end with one node."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from .command import Dsrun
from .jobs import BY_NAME, options
from .rounds import IMPORT, WORKER, elastic, ended, node_launcher, up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .command import Running
    from .hosts import Cluster

engines = pytest.mark.parametrize("launcher", [*BY_NAME, "slurm"])


@pytest.fixture
def running(site: Cluster, tmp_path: Path, launcher: str, agent: str) -> Iterator[Running]:
    """A job on two nodes that may go on with one."""
    work = tmp_path / "train.py"
    work.write_text(WORKER)
    dsrun = Dsrun(site, tmp_path, "--elastic_agent", agent)
    where = (*options(launcher), "--elastic_training", "--max_restarts", "2")
    job = elastic(dsrun, str(work), "n1:1,n2:1", *where)
    up(job, 2, 2)
    yield job
    dsrun.close()


@pytest.mark.tier("test")
@engines
def test_a_failure_restarts_all(running: Running, tmp_path: Path) -> None:
    (tmp_path / "fail-1-0").touch()
    up(running, 2, 2, 1)
    assert "restart 1/2: rank 1 on n2 exited 7" in ended(running, tmp_path)


@engines
@pytest.mark.parametrize("lost", ["n1", "n2"])
def test_a_node_launcher_is_killed_and_another_one_started(
    site: Cluster, running: Running, tmp_path: Path, lost: str
) -> None:
    os.kill(node_launcher(site, lost), signal.SIGKILL)
    left = {"n1": "n2", "n2": "n1"}[lost]
    running.wait_for_output(rf"{left}:0\| up 0 1", IMPORT)
    running.wait_for_output(r"(?s)(n1:0\| up 0 2 .*){2}", IMPORT)
    assert f"{lost} is back" in ended(running, tmp_path)


@pytest.mark.parametrize("launcher", BY_NAME)
def test_a_host_without_power_is_left_behind(
    site: Cluster, running: Running, tmp_path: Path
) -> None:
    """The engine waits for it for ever: it is ended with all that it has started, and its files."""
    with site.host("n2").powered_off():
        running.wait_for_output(r"n1:0\| up 0 1", IMPORT)
        ended(running, tmp_path)
