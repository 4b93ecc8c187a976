"""Several jobs at a time on the same held nodes, commands beside them, and what dies there."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from .command import CHECKOUT, Running
from .held import Held
from .jobs import LOST, parent
from .traces import Traces

if TYPE_CHECKING:
    from pathlib import Path

    from .hosts import Cluster

EXEC = (sys.executable, str(CHECKOUT / "bin" / "dsrun-exec"))
HOSTS = "n1:2,n2:2"
FIRST, SECOND = ("--include", "n1:0@n2:0"), ("--include", "n1:1@n2:1")


class Sides:
    """Two jobs side by side on the same two nodes, each with a worker on both.

    Attributes:
        one: the job that was first.
        two: the job that came while the nodes were in use.
    """

    def __init__(self, cluster: Cluster, held: Held, folder: Path) -> None:
        self._cluster, self._held = cluster, held
        self.go, self.never = folder / "go", folder / "never"
        self.one = held.start(*FIRST, "wait.py", str(self.never))
        held.wait_up(self.one, 2)
        self.start_second()

    def start_second(self) -> None:
        """Start the second job, and wait for its workers."""
        self.two = self._held.start(*SECOND, "wait.py", str(self.go))
        self._held.wait_up(self.two, 2)

    def command(self, *words: str) -> Running:
        """Start a command on all nodes."""
        argv = [*EXEC, f"--on={self._held.name}", *words]
        return Running(self._cluster.login.popen(argv, text=False))

    def sleeping(self) -> list[str]:
        """Return the hosts on which a command sleeps."""
        return sorted(p.host for p in self._cluster.processes() if p.argv == ("sleep", "300"))

    def launchers(self, job: Running, host: str) -> tuple[int, int]:
        """Return the guard and the node launcher above a job's worker on a host."""
        waits_for = str(self.go if job is self.two else self.never)
        found = self._cluster.processes()
        (worker,) = [p.pid for p in found if p.host == host and p.argv[-1] == waits_for]
        return parent(parent(worker)), parent(worker)


@pytest.mark.parametrize("launcher", ["ssh", "openmpi5"])
def test_two_jobs_and_a_command_on_the_same_nodes(
    site: Cluster, tmp_path: Path, launcher: str
) -> None:
    """Each ends alone; a third job uses the connections of the second one again."""
    traces = Traces(site)
    with Held(site, tmp_path, HOSTS, launcher=launcher) as held:
        sides = Sides(site, held, tmp_path)
        above = [sides.launchers(job, "n2") for job in (sides.one, sides.two)]
        assert len({pid for pids in above for pid in pids}) == 4
        command = sides.command("--shell", "sleep 300 & sleep 300 & echo here").wait()
        assert (command.returncode, command.stdout) == (0, "n1, n2: here\n"), command.stderr
        assert sides.sleeping() == []
        stuck = sides.command("sleep", "300")
        wait_for(lambda: sides.sleeping() == ["n1", "n2"], "the command")
        sides.go.touch()
        assert sides.two.wait().returncode == 0
        sides.go.unlink()
        sides.start_second()
        assert sides.launchers(sides.two, "n2") == above[1]
        sides.one.process.send_signal(signal.SIGINT)
        assert sides.one.wait().returncode == 128 + signal.SIGINT
        assert sides.two.process.poll() is None
        assert stuck.process.poll() is None
        assert held.release().returncode == 0
        assert stuck.wait().returncode != 0
        assert sides.two.wait().returncode != 0
    wait_for(lambda: not traces.leftovers(), "clean")


def test_what_dies_beside_another_job(cluster: Cluster, tmp_path: Path) -> None:
    """The node launcher and guard of the second job, those of the first one, the hold."""
    traces = Traces(cluster)
    with Held(cluster, tmp_path, HOSTS) as held:
        sides = Sides(cluster, held, tmp_path)
        os.kill(sides.launchers(sides.two, "n2")[1], signal.SIGKILL)
        ended = sides.two.wait()
        assert ended.returncode == LOST
        assert "the node launcher was killed by SIGKILL" in ended.stderr
        sides.start_second()
        os.kill(sides.launchers(sides.two, "n1")[0], signal.SIGKILL)
        assert sides.two.wait().returncode == LOST
        sides.start_second()
        assert sides.one.process.poll() is None
        stuck = sides.command("sleep", "300")
        wait_for(lambda: sides.sleeping() == ["n1", "n2"], "the command")
        os.kill(sides.launchers(sides.one, "n2")[1], signal.SIGKILL)
        assert (sides.one.wait().returncode, sides.two.wait().returncode) == (LOST, LOST)
        wait_for(lambda: sides.sleeping() == ["n1"], "its end on n2")
        held.running.wait_for_output("n2 is back")
        stuck.kill()
        sides = Sides(cluster, held, tmp_path)
        os.kill(sides.launchers(sides.one, "n1")[0], signal.SIGKILL)
        assert (sides.one.wait().returncode, sides.two.wait().returncode) == (LOST, LOST)
        held.running.wait_for_output("n1 is back")
        sides = Sides(cluster, held, tmp_path)
        held.running.process.send_signal(signal.SIGKILL)
        assert (sides.one.wait().returncode, sides.two.wait().returncode) == (LOST, LOST)
        wait_for(lambda: not traces.leftovers(), "clean")


@pytest.mark.tier("all")
def test_an_elastic_job_gets_its_nodes_back_beside_another_job(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Its own node launcher dies, then that of the other job, which carries its connection."""
    with Held(cluster, tmp_path, HOSTS) as held:
        sides = Sides(cluster, held, tmp_path)
        sides.go.touch()
        assert sides.two.wait().returncode == 0
        sides.go.unlink()
        sides.two = held.start("--elastic_training", *SECOND, "wait.py", str(sides.go))
        held.wait_up(sides.two, 2)
        os.kill(sides.launchers(sides.two, "n2")[1], signal.SIGKILL)
        sides.two.wait_for_output("next round: 2 workers on n1, n2")
        held.wait_up(sides.two, 5)
        os.kill(sides.launchers(sides.one, "n2")[1], signal.SIGKILL)
        assert sides.one.wait().returncode == LOST
        wait_for(lambda: sides.two.stderr.count("next round: 2 workers") == 2, "n2")
        held.wait_up(sides.two, 8)
        sides.go.touch()
        assert sides.two.wait().returncode == 0
