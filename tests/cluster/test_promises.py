"""dsrun-check --promises on hosts: dsrun keeps them, and hurts nobody else."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ..support import schemas
from ..support.promises import broken
from .command import CHECKOUT, Running
from .jobs import place

if TYPE_CHECKING:
    from pathlib import Path

    from .hosts import Cluster

CHECK = (sys.executable, str(CHECKOUT / "bin" / "dsrun-check"))
PROGRAM = CHECKOUT / "launcher" / "features" / "promises" / "worker_program.py"
OTHER = "20260101-000000-aaaaaa"
"""The job of a process that looks like a stand-in."""

HOSTS = ("n1", "n2")
SOME = "healthy,exit,children,output,dsrun,launcher,client,other-job"
"""What hosts alone can show, in half a minute."""


def promises(cluster: Cluster, folder: Path, *words: str) -> dict[str, Any]:
    """What the command says of its rows."""
    done = cluster.login.run([*CHECK, "--promises", "--json", *words], cwd=folder)
    assert done.stderr == ""
    value: dict[str, Any] = json.loads(done.stdout)
    assert schemas.faults("promises", value) == []
    assert value["exit_code"] == done.returncode
    return value


def test_promises_are_kept_on_hosts(cluster: Cluster, tmp_path: Path) -> None:
    like = Running(
        cluster.host("n2").popen(
            [sys.executable, str(PROGRAM), "finish", "100000"],
            env={"DSRUN_JOB_ID": OTHER},
            text=False,
        )
    )
    like.wait_for_output("@up 0 1 ")
    value = promises(cluster, tmp_path, SOME, *place("ssh", 2, HOSTS))
    assert like.process.poll() is None, like
    for one in cluster.processes(OTHER):
        os.kill(one.pid, signal.SIGKILL)
    like.wait()
    assert broken(value) == {}
    assert value["hosts"] == ["n1", "n2"]
    rows = {one["row"]: one for one in value["rows"]}
    assert {one["state"] for one in rows.values()} <= {"ok", "not ok"}  # none was skipped
    assert rows["exit"]["line"].startswith("rank 3 (n2, local rank 1, ")
    assert rows["launcher"]["line"].startswith("lost n2 ")


@pytest.mark.tier("all")
@pytest.mark.parametrize("launcher", ["ssh", "pdsh", "mpich4", "slurm"])
def test_all_promises_are_kept(site: Cluster, tmp_path: Path, launcher: str) -> None:
    value = promises(site, tmp_path, *place(launcher, 2, HOSTS))
    assert broken(value) == {}
    skipped = [one["row"] for one in value["rows"] if one["state"] == "skipped"]
    assert skipped == (["client"] if launcher == "pdsh" else [])


def test_a_host_that_does_not_exist_is_named(cluster: Cluster, tmp_path: Path) -> None:
    argv = [*CHECK, "--promises", "exit", "--host", "n1,nowhere"]
    done = cluster.login.run(argv, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (69, "")
    assert done.stderr.startswith("dsrun: nowhere: its name does not resolve")
