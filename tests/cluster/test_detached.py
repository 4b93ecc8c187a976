"""Detached jobs on hosts: they outlive the terminal, whatever has started their nodes."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ..support.limits import wait_for
from .command import CHECKOUT, COMMAND
from .held import Held
from .jobs import AT_ONCE, HEAD, place
from .test_no_ssh import TOKEN, TWO, Nodes
from .test_ssh_config import agent, key_elsewhere
from .traces import Traces

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from .hosts import Cluster

WORKER = HEAD + "\nwait_to_go(); sys.exit(3 if rank == 3 else 0)\n"


class Terminal:
    """A terminal at the login, in which a job is started, and which dies at once."""

    def __init__(self, cluster: Cluster, folder: Path, environ: dict[str, str]) -> None:
        (folder / "train.py").write_text(WORKER)
        self._cluster = cluster
        self._folder = folder
        self._environ = {"XDG_STATE_HOME": str(folder / "state"), **environ}
        self.said = ""

    def start(self, *words: str) -> str:
        """Start a job, kill the process group of the terminal, and return the job's id."""
        program = [] if "--roles" in words else [str(self._folder / "train.py")]
        line = shlex.join([*COMMAND, "--detach", *words, *program])
        shell = ["setsid", "--wait", "sh", "-c", f"{line} > id; kill -KILL 0"]
        self.said = self._run(shell).stderr
        job = (self._folder / "id").read_text().strip()
        assert job, self.said
        return job

    def job(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run dsrun-job in another terminal."""
        return self._run([sys.executable, str(CHECKOUT / "bin" / "dsrun-job"), *words])

    def _run(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        return self._cluster.login.run(argv, env=self._environ, cwd=self._folder)

    def running(self) -> dict[str, Any]:
        """What is told of the only job."""
        (job,) = json.loads(self.job("--json").stdout)["jobs"]
        return dict(job)

    def up(self, job: str) -> list[str]:
        """The lines of a job, once all its ranks have printed one."""
        wait_for(lambda: self.job("logs", job).stdout.count("is up") == 4, "output")
        return sorted(self.job("logs", job).stdout.splitlines())

    def go(self) -> None:
        """Let the job end."""
        (self._folder / "go").touch()


@contextmanager
def detached(
    cluster: Cluster, folder: Path, *words: str, **environ: str
) -> Iterator[tuple[Terminal, str]]:
    """A job that runs, and whose terminal is dead; at the end the job is, too."""
    terminal = Terminal(cluster, folder, environ)
    job = terminal.start(*words)
    try:
        yield terminal, job
    finally:
        terminal.job("kill", job, "--now")


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param("ssh", marks=pytest.mark.tier("test")),
        *("openssh", "pdsh", "openmpi5", "slurm"),
    ],
)
def test_a_job_outlives_its_terminal(site: Cluster, tmp_path: Path, launcher: str) -> None:
    traces = Traces(site)
    where = [*place(launcher, 2, ("n1", "n2")), *AT_ONCE]
    with detached(site, tmp_path, *where) as (terminal, job):
        assert ("this job ends with Slurm job" in terminal.said) is (launcher == "slurm")
        lines = terminal.up(job)
        assert [re.sub(r"\d+$", "", line) for line in lines if "is up" in line] == [
            f"n{1 + rank // 2}:{rank}| is up " for rank in range(4)
        ]
        runner = terminal.running()
        assert (runner["job_id"], runner["running"]) == (job, 4)
        terminal.go()
        ended = terminal.job("wait", job)
        assert ended.returncode == 3
        assert re.match(
            r"dsrun: rank 3 \(n2, local rank 1, pid \d+\) exited with code 3", ended.stderr
        )
        wait_for(lambda: not traces.leftovers(), "clean")
        picture = tmp_path / "r.html"
        assert terminal.job("report", job, "--html", str(picture)).returncode == 0
        assert "n2" in picture.read_text()


ROLES = """
[[role]]
name = "server"
nodes = 1
workers = 1
command = ["sh", "-c", "echo serves; exec sleep 1000"]
ready = "line:serves"
ends = "never"
on_failure = "restart"

[[role]]
name = "trainer"
nodes = 1
workers = 2
script = "./train.py"
after = ["server"]
ends = "job"
"""


def test_a_job_of_roles_outlives_its_terminal(cluster: Cluster, tmp_path: Path) -> None:
    traces = Traces(cluster)
    (tmp_path / "roles.toml").write_text(ROLES)
    (tmp_path / "train.py").write_text(WORKER)
    where = [*place("ssh", 2, ("n1", "n2")), "--roles", str(tmp_path / "roles.toml")]
    with detached(cluster, tmp_path, *where) as (terminal, job):
        told = terminal.job("report", job).stdout
        assert "  server: ready, 1 of 1 rank\n  trainer: ready, 2 of 2 ranks\n" in told
        (server,) = (p for p in cluster.processes() if p.argv[:2] == ("sleep", "1000"))
        os.kill(server.pid, signal.SIGKILL)
        again = "  server: ready, 1 of 1 rank, 1 restart\n"
        wait_for(lambda: again in terminal.job("report", job).stdout, "another server")
        terminal.go()
        ended = terminal.job("wait", job)
        assert (ended.returncode, ended.stderr) == (0, "")
        lines = terminal.job("logs", job).stdout.splitlines()
        assert lines.count("server/n1:0| serves") == 2
        assert {line.partition(" is up")[0] for line in lines if "is up" in line} == {
            f"trainer/n2:{rank}|" for rank in (0, 1)
        }
        wait_for(lambda: not traces.leftovers(), "clean")


def test_an_elastic_job_goes_on_in_another_round_and_needs_the_agent(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Its key was the agent's, and it says so; it restarts without the terminal."""
    (tmp_path / "restarts").touch()
    with key_elsewhere(cluster) as key, agent(cluster, key) as environ:
        where = [*place("ssh", 2, ("n1", "n2")), *AT_ONCE, "--max_restarts", "1"]
        with detached(cluster, tmp_path, *where, **environ) as (terminal, job):
            note = f"the ssh key came from your agent ({environ['SSH_AUTH_SOCK']})"
            assert note in terminal.said
            terminal.up(job)
            terminal.job("signal", job, "KILL")
            wait_for(lambda: terminal.running()["round"] == 2, "another round")
            wait_for(lambda: terminal.running()["running"] == 4, "its workers")
            assert "restart" in terminal.job("logs", job).stdout, "a message of dsrun's own"
            terminal.job("kill", job, "--now")
            assert terminal.job("wait", job).returncode == 128 + signal.SIGTERM


def test_when_its_runner_is_killed_the_nodes_clean_up(cluster: Cluster, tmp_path: Path) -> None:
    traces = Traces(cluster)
    with detached(cluster, tmp_path, *place("ssh", 2, ("n1", "n2")), *AT_ONCE) as (terminal, job):
        before = terminal.up(job)
        runner = next(
            p.pid for p in cluster.processes() if p.host == "login" and "--detach" in p.argv
        )
        os.kill(runner, signal.SIGKILL)
        ended = terminal.job("wait", job)
        assert ended.returncode == 75
        assert f"job {job}: its dsrun (pid " in ended.stderr
        wait_for(lambda: not traces.leftovers(), "clean")
        assert sorted(terminal.job("logs", job).stdout.splitlines()) == before


def test_a_job_on_a_hold_outlives_its_terminal(cluster: Cluster, tmp_path: Path) -> None:
    with (
        Held(cluster, tmp_path, "n1:2,n2:2") as held,
        detached(cluster, tmp_path, "--on", held.name) as (terminal, job),
    ):
        terminal.up(job)
        terminal.go()
        assert terminal.job("wait", job).returncode == 3
        held.release()


def test_a_folder_on_a_shared_home_tells_where_a_job_runs(cluster: Cluster, tmp_path: Path) -> None:
    """Another machine shows its output, and knows neither its end nor its runner."""
    with detached(cluster, tmp_path, *place("ssh", 2, ("n1", "n2")), *AT_ONCE) as (terminal, job):
        terminal.up(job)
        environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
        argv = [sys.executable, str(CHECKOUT / "bin" / "dsrun-job")]
        there = cluster.host("n3")
        listed = there.run([*argv, "list", "--ended"], env=environ).stdout
        assert re.search(rf"(?m)^{job} +on login +", listed)
        assert there.run([*argv, "logs", job], env=environ).stdout.count("is up") == 4
        report = there.run([*argv, "report", job], env=environ).stdout
        assert report == f"dsrun: job {job} runs on login; ask there\n"
        terminal.go()
        assert there.run([*argv, "wait", job], env=environ).returncode == 3


def test_without_ssh_the_command_of_each_node_returns(cluster: Cluster, tmp_path: Path) -> None:
    """Node 0 has the job; the other one has joined it, and ends with it."""
    traces = Traces(cluster)
    (tmp_path / "train.py").write_text(WORKER)
    environ = {"XDG_STATE_HOME": str(tmp_path / "state"), **TOKEN}
    nodes = Nodes(cluster, tmp_path, f"{TWO} --detach", str(tmp_path / "train.py"))
    for rank in (0, 1):
        nodes.start(rank, env=environ)
    first, second = nodes.wait()
    assert (first.returncode, second.returncode, second.stdout) == (0, 0, "")
    argv = [sys.executable, str(CHECKOUT / "bin" / "dsrun-job")]
    (tmp_path / "go").touch()
    ended = cluster.host("n1").run([*argv, "wait", first.stdout.strip()], env=environ)
    assert ended.returncode == 3, ended.stderr
    wait_for(lambda: not traces.leftovers(), "clean")
