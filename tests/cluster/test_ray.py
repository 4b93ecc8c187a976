"""Ray itself on four hosts, with the roles file and the driver of docs/programs.md."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from ..support.programs import FOLDER, need_program, program
from .traces import REMOVE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .command import Dsrun, Running
    from .hosts import Cluster

pytestmark = pytest.mark.tier("all")

BUSY = """

import time


@ray.remote(num_cpus=1)
def work(folder):
    open(f"{folder}/busy-{socket.gethostname()}", "w").close()
    time.sleep(1200)


ray.get([work.options(scheduling_strategy=one).remote("FOLDER") for one in strategies])
"""
"""What goes on at the end of the driver: a task on each host, until somebody ends it."""


class RayJob:
    """The recipe on the hosts of a cluster."""

    def __init__(self, cluster: Cluster, dsrun: Dsrun, folder: Path) -> None:
        """Lay out its files."""
        self._cluster, self._dsrun, self._folder = cluster, dsrun, folder
        (folder / "roles.toml").write_text(program("Ray").one("toml"))
        (folder / "hosts").write_text("".join(f"{name} slots=8\n" for name in cluster.names))

    def start(self, more: str = "") -> Running:
        """Start it, with more lines at the end of its driver."""
        (self._folder / "driver.py").write_text(program("Ray").one("python") + more)
        words = ("--accelerator", "cpu", "--venv_script", str(FOLDER / "bin" / "activate"))
        return self._dsrun.start("--hostfile", "hosts", *words, "--roles", "roles.toml")

    def processes(self) -> list[str]:
        """Each process of Ray or of its driver on a host, with the host's name."""
        lines = [f"{one.host}: {' '.join(one.argv)}" for one in self._cluster.processes()]
        return [one for one in lines if re.match(r"n\d: .*(\bray\b|gcs_server|driver\.py)", one)]


@pytest.fixture
def ray(cluster: Cluster, dsrun: Dsrun, tmp_path: Path) -> Iterator[RayJob]:
    """The recipe; what Ray keeps of its logs on each host is removed."""
    need_program("ray")
    yield RayJob(cluster, dsrun, tmp_path)
    for host in cluster.hosts:
        host.run([*REMOVE, "/tmp/ray"])


def placed(output: str) -> list[str]:
    """The hosts on which the driver's tasks ran, each of them another node of Ray's."""
    found = re.findall(r"a task ran on (\S+), node ([0-9a-f]{56})", output)
    assert len({node for _, node in found}) == len(found), output
    return sorted(host for host, _ in found)


def test_a_task_runs_on_each_host(ray: RayJob) -> None:
    ended = ray.start().wait()
    assert ended.returncode == 0, ended
    assert placed(ended.stdout) == ["n1", "n2", "n3", "n4"], ended
    wait_for(lambda: not ray.processes(), "the end of Ray")


def test_nothing_outlives_a_killed_dsrun(ray: RayJob, tmp_path: Path) -> None:
    """Also not the tasks that run."""
    running = ray.start(BUSY.replace("FOLDER", str(tmp_path)))
    wait_for(lambda: len([*tmp_path.glob("busy-*")]) == 4 or running.process.poll(), "the tasks")
    hosts = {one.partition(":")[0] for one in ray.processes()}
    assert hosts == {"n1", "n2", "n3", "n4"}, running
    running.process.send_signal(signal.SIGKILL)
    wait_for(lambda: not ray.processes(), "the end of Ray")
