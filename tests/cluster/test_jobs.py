"""dsrun-job with real jobs on hosts: what it shows, how it stops them, and what they leave."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..support import schemas
from ..support.limits import wait_for
from .command import CHECKOUT
from .jobs import OBEDIENT, Job
from .test_launcher_deaths import WITH_SESSION, inner, kill

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from .hosts import Cluster

NOBODY = 65534


def dsrun_job(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    """Run dsrun-job where dsrun runs."""
    argv = [sys.executable, str(CHECKOUT / "bin" / "dsrun-job"), *words]
    return cluster.login.run(argv)


def id_of(job: Job) -> str:
    """The id of a job, as its workers have it."""
    environ = Path(f"/proc/{job.pids()[0]}/environ").read_bytes()
    return environ.partition(b"DSRUN_JOB_ID=")[2].partition(b"\0")[0].decode()


def told_of_all(cluster: Cluster) -> dict[str, Any]:
    """What dsrun-job tells of the only job, once both its nodes have answered in time."""
    jobs: list[dict[str, Any]] = []

    def answered() -> bool:
        shown = json.loads(dsrun_job(cluster, "top", "--json").stdout)
        assert schemas.faults("jobs", shown) == []
        jobs[:] = shown["jobs"]
        return sum(len(node["ranks"]) for one in jobs for node in one["used"]) == 4

    wait_for(answered, "an answer of both nodes")
    (told,) = jobs
    return told


@pytest.mark.tier("test")
def test_a_job_is_shown_signalled_and_stopped(cluster: Cluster, tmp_path: Path) -> None:
    code = f"hear('SIGUSR1'); {OBEDIENT}"
    with Job(cluster, tmp_path, code) as job:
        name = id_of(job)
        row = rf"(?m)^{name} +running +2 +4 +\w+ +\S+train.py +[0-3]\| is up \d+$"
        wait_for(lambda: len(re.findall(row, dsrun_job(cluster).stdout)) == 1, "its line")
        told = told_of_all(cluster)
        assert [node["state"] for node in told["nodes"]] == ["running"] * 2
        here = {inner(pid) for pid in job.pids()}
        assert {rank["pid"] for rank in told["ranks"]} == here
        used = {row["rank"]: row for one in told["used"] for row in one["ranks"]}
        assert sorted(used) == [0, 1, 2, 3]
        assert all(row["memory"] > 1 << 20 and row["pid"] in here for row in used.values())
        logs = dsrun_job(cluster, "logs", "--ranks", "2").stdout
        assert re.fullmatch(r"n2:2\| is up \d+\n", logs)
        assert dsrun_job(cluster, "signal", "USR1").returncode == 0
        for rank in range(4):
            job.said(rank, "hears SIGUSR1")
        done = dsrun_job(cluster, "kill", name[-6:])
        assert (done.returncode, done.stdout) == (0, f"dsrun-job: job {name}: has ended\n")
        assert job.wait()[0] == 128 + signal.SIGTERM
        job.clean()
    assert [job.heard(rank) for rank in range(4)] == [["SIGUSR1", "SIGTERM"]] * 4
    assert dsrun_job(cluster).stdout == ""


@contextmanager
def looking_alike(cluster: Cluster, name: str) -> Iterator[set[int]]:
    """Two processes on n2 that only look like those of a job: one lacks a variable, one a user."""
    n2, sleep = cluster.host("n2"), ["sleep", "1000"]
    own = f"DSRUN_JOB_ID={name}"
    # Not in the environment of what enters the host: other tests' jobs would call that left over.
    both = ["env", own, "DSRUN_NODE_LAUNCHER=999999999:5"]
    other = [*both, "setpriv", f"--reuid={NOBODY}", "--clear-groups", *sleep]
    with n2.popen(["env", own, *sleep]), n2.popen(other):
        try:
            wait_for(lambda: len(sleeping(cluster)) == 2, "both")
            yield sleeping(cluster)
        finally:
            for pid in sleeping(cluster):
                os.kill(pid, signal.SIGKILL)


def sleeping(cluster: Cluster) -> set[int]:
    """The processes that look alike and still run."""
    return {p.pid for p in cluster.processes() if p.argv == ("sleep", "1000")}


def node_launchers(cluster: Cluster, host: str) -> list[int]:
    """The guard and the node launcher of a host, which end after all that they have started."""
    found = [p for p in cluster.processes() if p.host == host]
    return [p.pid for p in found if p.argv[1:4] == ("-E", "-S", "-c")]


def test_what_a_dead_job_has_left_is_ended_and_nothing_else(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Guard and node launcher of a node are killed at once, and so is the runner."""
    with Job(cluster, tmp_path, WITH_SESSION) as job:
        name, workers = id_of(job), set(job.pids("n2"))
        kill(job.running.pid, *job.launchers("n2"))
        wait_for(lambda: len(workers & set(job.pids("n2"))) == 2, "the workers' end")
        wait_for(lambda: not node_launchers(cluster, "n1"), "the end on the other node")
        left = {inner(pid) for pid in job.pids("n2")}
        where = ("kill", name, "--host", "n1,n2")
        with looking_alike(cluster, name) as alike:
            done = dsrun_job(cluster, *where, "--grace", "0.2", "--json")
            assert sleeping(cluster) == alike
        ended = json.loads(done.stdout)
        assert schemas.faults("jobs", ended, "remains") == []
        hosts = {one["host"]: one for one in ended["hosts"]}
        assert {int(text.split()[1]) for text in hosts["n2"]["ended"]} == left
        assert (hosts["n1"]["ended"], hosts["n2"]["left"], done.returncode) == ([], [], 0)
        assert (job.pids(), len(alike)) == ([], 2)
        again = dsrun_job(cluster, *where)
        assert (again.returncode, again.stderr) == (0, "")
        assert again.stdout == f"dsrun-job: no processes of job {name} on 2 hosts\n"


def test_a_frozen_node_is_ended_without_its_runner(cluster: Cluster, tmp_path: Path) -> None:
    """Its guard and its node launcher are stopped, so nobody there has noticed the end."""
    with Job(cluster, tmp_path, WITH_SESSION) as job:
        name, workers = id_of(job), set(job.pids("n2"))
        for pid in (*job.launchers("n2"), job.running.pid):
            os.kill(pid, signal.SIGSTOP)
        kill(job.running.pid)
        wait_for(lambda: not job.pids("n1"), "the end on the other node")
        assert set(job.pids("n2")) == workers
        done = dsrun_job(cluster, "kill", name, "--host", "n1,n2,n9", "--connect_timeout", "30")
        assert done.returncode == 69
        four = r", ".join([r"pid \d+ \(\w+\)"] * 4)
        assert re.search(rf"(?m)^dsrun-job: n2: stopped: {four}$", done.stdout)
        assert f"dsrun-job: no processes of job {name} on 1 host\n" in done.stdout
        assert re.search(r"(?m)^dsrun-job: n9: not reached: ", done.stdout)
        job.clean()
    # The node launcher was told, and stopped its workers with their grace.
    assert [job.heard(rank) for rank in (2, 3)] == [["SIGTERM"]] * 2
