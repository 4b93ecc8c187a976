"""The files of examples/roles as they are, with small stand-ins for the programs they name."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from .command import CHECKOUT
from .jobs import AT_ONCE, parent
from .stand_ins import lay_out
from .test_roles import environ

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun, Running
    from .hosts import Cluster

FOLDER = CHECKOUT / "examples" / "roles"
GPUS = ("--accelerator", "cuda", "--export", "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7")


class Recipe(NamedTuple):
    """What is known of a file.

    Attributes:
        hosts: with few slots where that does not matter.
        meet: how many workers ask a server.
        up: a line, and how often it comes until all have met.
        server: the role that the others ask, with whose failure the job fails.
        restarts: roles that are started again if a worker fails, each with the line that a worker
            of it says at each start.
    """

    hosts: str
    meet: int
    up: tuple[str, int]
    server: str = ""
    restarts: tuple[tuple[str, str], ...] = ()


ONES = "n1:1,n2:1,n3:1,n4:1"
RECIPES = {
    "trl_vllm": Recipe("n1:8,n2:2,n3:1,n4:1", 4, ("trainer met", 4), "vllm"),
    "ray_verl": Recipe("n1:8,n2:8,n3:8,n4:8", 4, ("driver has led to 8", 1), "head"),
    "prime_rl": Recipe("n1:8,n2:1,n3:1,n4:1", 1, ("trainer ends", 3), "inference"),
    "parameter_server": Recipe(ONES, 4, ("worker met", 4), "server", (("worker", "worker met"),)),
    "dask": Recipe(ONES, 5, ("client has led to 8", 1), "scheduler", (("worker", "worker met"),)),
    "evaluator": Recipe(
        "n1:1,n2:1,n3:1,n4:2",
        0,
        ("evaluator evaluated 5000", 2),
        restarts=(("evaluator", "evaluator evaluated 5000"), ("trainer", "trainer saved 5000")),
    ),
}
IN_TIERS = [pytest.param("trl_vllm", marks=pytest.mark.tier("test")), *list(RECIPES)[1:]]


class Played:
    """Runs files in a folder with stand-ins."""

    def __init__(self, cluster: Cluster, dsrun: Dsrun, folder: Path) -> None:
        self._cluster, self._dsrun, self._folder = cluster, dsrun, folder
        self._path = lay_out(folder)

    def start(self, name: str) -> Running:
        """Run a file until all of its roles have met."""
        words = ["--host", RECIPES[name].hosts, *AT_ONCE, *GPUS, "--export", f"PATH={self._path}"]
        words += ["--report_file", "report.json", "--roles", str(FOLDER / f"{name}.toml")]
        running = self._dsrun.start(*words)
        self.wait(running, *RECIPES[name].up)
        return running

    def wait(self, running: Running, line: str, times: int) -> None:
        """Wait until a line has come so many times."""
        running.wait_for_output(rf"(?s)(?:{line}\b.*){{{times}}}")

    def go(self, *roles: str) -> None:
        """Let the workers of these roles end."""
        for role in roles:
            (self._folder / f"go-{role}").touch()

    def kill(self, role: str) -> None:
        """Kill one worker of a role."""
        name = f"ROLE_NAME={role}".encode()
        found = [p.pid for p in self._cluster.processes() if p.job]
        found = [pid for pid in found if name in environ(pid).split(b"\0")]
        os.kill(next(pid for pid in found if parent(pid) not in found), signal.SIGKILL)

    def report(self) -> dict[str, Any]:
        """What the job has reported."""
        told: dict[str, Any] = json.loads((self._folder / "report.json").read_text())
        return told


@pytest.fixture
def played(cluster: Cluster, dsrun: Dsrun, tmp_path: Path) -> Played:
    return Played(cluster, dsrun, tmp_path)


def test_each_file_is_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == RECIPES.keys()


@pytest.mark.parametrize("name", IN_TIERS)
def test_roles_meet_and_end_as_the_file_says(cluster: Cluster, played: Played, name: str) -> None:
    """A failure that costs a role alone does not change that."""
    recipe, running = RECIPES[name], played.start(name)
    met = re.findall(r" met (\S+):(\d+)", running.stdout)
    served = re.findall(r" serves (\S+) (\d+)", running.stdout)
    names = {host.address: host.name for host in cluster.hosts}
    assert {(names.get(host, host), port) for host, port in met} == {*served}
    assert (len(met), len(served)) == (recipe.meet, bool(recipe.server))
    for role, line in recipe.restarts:
        before = running.stdout.count(line)
        played.kill(role)
        played.wait(running, line, 2 * before)
    played.go("trainer", "worker", "client", "driver", "orchestrator")
    if name == "evaluator":
        played.wait(running, "trainer ends", 3)
        assert running.process.poll() is None, "the last evaluation is not lost"
        played.go("evaluator")
    ended = running.wait()
    assert ended.returncode == 0, str(running)
    told = played.report()["roles"]
    assert {one["state"] for one in told.values()} == {"ended"}
    killed = {role for role, _ in recipe.restarts}
    assert all(one["restarts"] <= (role in killed) for role, one in told.items()), "wrong order"


@pytest.mark.parametrize("name", [name for name, one in RECIPES.items() if one.server])
def test_a_killed_server_ends_the_job(played: Played, name: str) -> None:
    running, server = played.start(name), RECIPES[name].server
    played.kill(server)
    ended = running.wait()
    assert ended.returncode == 128 + signal.SIGKILL, str(running)
    assert played.report()["role"] == server
