"""The MPI launcher itself dies, or the ssh by which it has reached a host: no half job is left."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .jobs import BY_NAME, LOST, OBEDIENT, Job

if TYPE_CHECKING:
    from .hosts import Cluster

engines = pytest.mark.parametrize("launcher", BY_NAME)
NEEDS_SSH = ("openmpi4", "openmpi5")


def engine_of(job: Job) -> int:
    """The engine that dsrun has started: its only child."""
    (found,) = Path(f"/proc/{job.running.pid}/task/{job.running.pid}/children").read_text().split()
    return int(found)


def client_of(cluster: Cluster, host: str) -> int:
    """The ssh by which the engine has reached a host."""
    found = [p for p in cluster.processes() if p.argv[0].endswith("ssh") and host in p.argv]
    return found[0].pid


@pytest.mark.tier("test")
@engines
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_engine_is_ended(
    cluster: Cluster, tmp_path: Path, launcher: str, number: signal.Signals
) -> None:
    with Job(cluster, tmp_path, OBEDIENT, launcher=launcher) as job:
        os.kill(engine_of(job), number)
        returncode, errors = job.wait()
        job.clean()
    assert returncode == (LOST if number == signal.SIGKILL else 143), errors
    assert [job.heard(rank) for rank in range(job.size)] == [["SIGTERM"]] * job.size


@engines
def test_the_engines_ssh_is_killed(cluster: Cluster, tmp_path: Path, launcher: str) -> None:
    """Open MPI gives up. Hydra does not need it any more, and the job's own lines stand."""
    worker = "hear('SIGTERM', then=0); wait_to_go()"
    with Job(cluster, tmp_path, worker, launcher=launcher) as job:
        os.kill(client_of(cluster, "n2"), signal.SIGKILL)
        if launcher not in NEEDS_SSH:
            job.go()
        returncode, errors = job.wait()
        job.clean()
    heard = [job.heard(rank) for rank in range(job.size)]
    if launcher in NEEDS_SSH:
        assert (returncode, heard) == (LOST, [["SIGTERM"]] * job.size), errors
        assert "dsrun: lost the engine " in errors
    else:
        assert (returncode, heard) == (0, [[]] * job.size), errors
