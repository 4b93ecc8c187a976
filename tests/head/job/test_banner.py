"""The line that opens a job, no wider than a terminal."""

from __future__ import annotations

import pytest

from dsrun.launcher.head.job.banner import WIDTH, banner

from ...support.run_nodes import plan_of


@pytest.mark.parametrize(
    ("launcher", "nodes", "source", "line"),
    [
        ("local", 1, "this machine", "this machine; job j"),
        ("local", 1, "--host", "this machine, from --host; job j"),
        ("local", 1, "this machine, others: X", "this machine, others: X; job j"),
        ("ssh", 1, "--hostfile hosts (2 lines)", "1 node from --hostfile hosts over ssh; job j"),
        ("slurm", 3, "Slurm job 12", "3 nodes from Slurm job 12 over slurm; job j"),
        ("none", 2, "--host", "node 0 of 2: --host; job j"),
        ("none", 2, "this machine", "node 0 of 2: --no_ssh; job j"),
    ],
)
def test_what_a_job_opens_with(launcher: str, nodes: int, source: str, line: str) -> None:
    assert banner(plan_of(nodes)._replace(launcher=launcher), source, "j") == line


def test_a_long_source_loses_its_middle() -> None:
    line = banner(plan_of(2), f"--hostfile /begin{'/deep' * 40}/end", "j")
    assert len(f"dsrun: {line}") == WIDTH
    assert line.startswith("2 nodes from --hostfile /begin")
    assert "..." in line
    assert line.endswith("/end over ssh; job j")


def test_a_source_that_fits_is_whole() -> None:
    usual = banner(plan_of(2), "", "j")
    source = "x" * (WIDTH - len(f"dsrun: {usual}"))
    assert banner(plan_of(2), source, "j") == usual.replace("from ", f"from {source}")
