"""Slow hosts and links in a job that runs, found from outside.

In how many steps they are named is tested with a clock: `tests/features/watch/test_runner_slow.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.limits import NEVER
from .cable import slow_card, slow_link
from .quota import throttled

if TYPE_CHECKING:
    from .command import Dsrun, Running
    from .hosts import Cluster

EXCHANGE = str(Path(__file__).with_name("exchange.py"))
FOUR = ("--host", "n1,n2,n3,n4", "--no_check", "--warn_slow")


def start(dsrun: Dsrun, compute: float, size: int, *options: str) -> Running:
    """Start the job, and wait until it makes steps."""
    running = dsrun.start(*FOUR, *options, EXCHANGE, f"{compute}", f"{size}", "100000")
    running.wait_for_output(r"step 5\n")
    return running


@pytest.mark.tier("test")
def test_a_host_under_a_quota_and_the_network_of_another_are_named(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    running = start(dsrun, 0.06, 100_000, "--report_file", str(report))
    with throttled(cluster, "n3", 0.1):
        running.wait_for_output(
            r"dsrun: rank 2 \(n3\) slows the job down: .* the CPU quota of n3 stopped it"
        )
    with slow_card(cluster, "n2", "5mbit"):
        running.wait_for_output(
            r"dsrun: the network of n2 slows the job down: it carries [\d.]+ MB/s"
        )
        running.process.terminate()
        running.wait()
    # On a busy machine something else may be slow as well.
    slow = json.loads(report.read_text())["slow"]
    assert ("quota", [2], ["n3"]) in [(one["cause"], one["ranks"], one["hosts"]) for one in slow]
    assert ("network", ["n2"], None) in [
        (one["cause"], one["hosts"], one["seconds"]) for one in slow
    ]


@pytest.mark.tier("all")
def test_a_slow_link_is_named(cluster: Cluster, dsrun: Dsrun) -> None:
    running = start(dsrun, 0.06, 100_000)
    with slow_link(cluster, "n1", "n4", "2mbit"):
        running.wait_for_output("dsrun: the link between n1 and n4 slows the job down")
    running.kill()


@pytest.mark.tier("all")
@pytest.mark.parametrize(("compute", "size"), [(0.01, 1_000), (0.06, 100_000), (0.3, 5_000_000)])
def test_even_ranks_are_not_called_slow(compute: float, size: int, dsrun: Dsrun) -> None:
    """For a minute, and longer on a busy machine."""
    running = start(dsrun, compute, size)
    running.wait_for_output(rf"step {round(30 / compute)}\n", NEVER)
    assert "slow" not in running.stderr
    running.process.terminate()
    assert "slow" not in running.wait().stderr
