"""Where hosts come from, and what is told of those that are left out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.parser import parse
from dsrun.launcher.planning.inventory import find_hosts
from dsrun.launcher.planning.planner import make_plan

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A job of two nodes, on the first of which this is."""
    for name in [one for one in os.environ if one.startswith(("SLURM", "PBS", "LSB"))]:
        monkeypatch.delenv(name)
    (tmp_path / "here").write_text("127.0.0.1 slots=2\n")
    (tmp_path / "nodes").write_text("n1\nn2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    return monkeypatch


def notes(*words: str) -> tuple[str, ...]:
    return find_hosts(parse([*words, "x.py"], {}).options).notes


@pytest.mark.parametrize(
    ("words", "source"),
    [
        ("--host localhost:2", "--host"),
        ("--host 127.0.0.1", "--host"),
        (f"--host {os.uname().nodename}", "--host"),
        ("--hostfile here", "hostfile here"),
        ("--host_discovery_script 'echo localhost:2'", "program echo localhost:2"),
    ],
)
def test_a_job_of_which_one_node_is_used_is_told(words: str, source: str) -> None:
    option, _, value = words.partition(" ")
    assert notes(option, value.strip("'")) == (
        f"{source} names only this machine, but Slurm job 7 (SLURM_JOB_NODELIST, 2 nodes; each"
        " node counts its devices) has more; leave it out to use all nodes of the job",
    )


@pytest.mark.parametrize(
    "words",
    [
        ("--host", "n1,n2"),
        ("--host", "n1"),
        ("--host", "localhost", "--launcher", "local"),
        ("--host", "localhost", "--no_ssh"),
        ("--standalone",),
        (),
    ],
)
def test_what_is_meant_is_not_told(words: tuple[str, ...]) -> None:
    assert notes(*words) == ()


def test_a_job_of_one_node_has_no_others(job: pytest.MonkeyPatch) -> None:
    job.setenv("SLURM_JOB_NODELIST", "n1")
    assert notes("--host", "localhost") == ()
    job.delenv("SLURM_JOB_ID")
    assert notes("--host", "localhost") == ()


def test_it_is_the_same_for_other_schedulers(job: pytest.MonkeyPatch, tmp_path: Path) -> None:
    job.delenv("SLURM_JOB_ID")
    job.setenv("PBS_JOBID", "3")
    job.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    assert notes("--host", "localhost")[0].startswith("--host names only this machine, but PBS")
    job.setenv("PBS_NODEFILE", str(tmp_path / "gone"))
    assert notes("--host", "localhost") == ()


def test_the_plan_has_the_notes() -> None:
    plan = make_plan(parse(["--host", "localhost:2", "x.py"], {}))
    assert any("names only this machine" in note for note in plan.origin.notes)
