"""Jobs of a Python program on hosts: results by rank, lost nodes, and the death of the program."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from ..support.checkout import IMPORTABLE
from ..support.limits import wait_for
from .command import Running
from .jobs import options
from .traces import Traces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .hosts import Cluster

BEGIN = """
import json, os, signal, sys
from dsrun.launcher.api import Fleet, JobError, Lost, Output, RankError, launch

four = {"hosts": "n1:2,n2:2", "accelerator": "cpu", "output": None, "grace": 2}

def where(n):
    return os.uname().nodename, int(os.environ["RANK"]) * n

def fail(rank):
    if os.environ["RANK"] == str(rank):
        raise LookupError("no batch")
    signal.pause()

def wait():
    print("up", flush=True)
    signal.pause()

def up(job):
    for event in job.events():
        if isinstance(event, Output):
            return job
"""


class Programs:
    """Python programs at the login."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._started: list[Running] = []

    def start(self, text: str) -> Running:
        """Start a program."""
        path = self._folder / f"program{len(self._started)}.py"
        path.write_text(BEGIN + text)
        process = self._cluster.login.popen(
            [sys.executable, str(path)], cwd=self._folder, env=IMPORTABLE, text=False
        )
        self._started.append(Running(process))
        return self._started[-1]

    def told(self, text: str) -> Any:
        """Run a program to its end; return what it has printed as JSON."""
        done = self.start(text).wait()
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def close(self) -> None:
        for one in self._started:
            one.kill()


@pytest.fixture
def programs(cluster: Cluster, tmp_path: Path) -> Iterator[Programs]:
    """Start programs at the login, in the test's folder."""
    found = Programs(cluster, tmp_path)
    yield found
    found.close()


def test_results_and_errors_by_rank_of_jobs_and_fleets(programs: Programs) -> None:
    told = programs.told("""
told = {"values": launch(where, [10], **four).results(600)}
try:
    launch(fail, [3], **four).results(600)
except RankError as error:
    told["error"] = [error.rank, error.host, type(error.__cause__).__name__]
del four["hosts"], four["output"], four["grace"], four["accelerator"]
with Fleet(hosts="n1:2,n2:2", accelerator="cpu") as fleet:
    told["nodes"] = [(one.name, one.state) for one in fleet.nodes()]
    told["runs"] = [fleet.run(where, [n], output=None).results(600) for n in (1, 2)]
    halves = [fleet.run(where, [n], include=f"n{n}", output=None) for n in (1, 2)]
    told["halves"] = [job.results(600) for job in halves]
print(json.dumps(told))
""")
    hosts = ["n1", "n1", "n2", "n2"]
    assert told["values"] == {str(n): [hosts[n], n * 10] for n in range(4)}
    assert told["error"] == [3, "n2", "LookupError"]
    assert told["nodes"] == [["n1", "free"], ["n2", "free"]]
    assert told["runs"] == [{str(n): [hosts[n], n * by] for n in range(4)} for by in (1, 2)]
    assert told["halves"] == [{"0": [f"n{n}", 0], "1": [f"n{n}", n]} for n in (1, 2)]


@pytest.mark.parametrize("launcher", ["ssh", "pdsh", "openmpi5", "mpich4", "slurm"])
@pytest.mark.parametrize("code", [0, 7])
def test_a_job_over_any_launcher_ends_in_silence(
    site: Cluster, tmp_path: Path, launcher: str, code: int
) -> None:
    """The process behind it lives on until the program has its report."""
    words = options(launcher)
    over = {name.removeprefix("--"): value for name, value in pairwise(words) if "--" in name}
    with closing(Programs(site, tmp_path)) as programs:
        ran = programs.start(f"""
job = launch(lambda: os._exit({code} * (os.environ["RANK"] == "1")), **four, **{over!r})
print(job.wait().exit_code)
""").wait()
    assert (ran.returncode, ran.stdout.split()[-1:]) == (0, [str(code)]), ran
    assert "Traceback" not in ran.stderr
    assert "bug in dsrun" not in ran.stderr


def test_a_lost_node_is_an_event_and_an_error(programs: Programs, cluster: Cluster) -> None:
    program = programs.start("""
job = up(launch(wait, heartbeat_timeout=10, **four))
print("running", flush=True)
lost = [event.host for event in job.events() if isinstance(event, Lost)]
try:
    job.results()
except JobError as error:
    print(json.dumps([lost, error.exit_code, error.report.lost[0][0]]))
""")
    program.wait_for_output("running")
    with cluster.host("n2").powered_off():
        done = program.wait()
    assert json.loads(done.stdout.splitlines()[-1]) == [["n2"], 75, "n2"], done.stderr


def test_kill_9_of_the_program_leaves_nothing_on_any_host(
    programs: Programs, cluster: Cluster
) -> None:
    traces = Traces(cluster)
    program = programs.start("""
job = up(launch(wait, **four))
fleet = Fleet(hosts="n3:1,n4:1", accelerator="cpu")
held = up(fleet.run(wait, output=None, grace=2))
print("running", os.getpid(), flush=True)
signal.pause()
""")
    pid = int(program.wait_for_output(r"running (\d+)")[1])
    wait_for(lambda: len(traces.leftovers()) > 8, "both jobs on all hosts")
    os.kill(pid, 9)
    wait_for(lambda: not traces.leftovers(), "clean")
