"""Jobs that hang, on hosts: the rank that the others wait for is named in time, and no other is."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import NO_PROGRESS

from .hanging import ALL_HEALTHY, HEALTHY, KINDS, TIMEOUT, Hanging, healthy, package
from .jobs import Job
from .machines import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun
    from .hosts import Cluster


@pytest.mark.tier("test")
def test_a_rank_is_named_in_whatever_way_it_hangs(cluster: Cluster, tmp_path: Path) -> None:
    with Hanging(cluster, tmp_path, tuple(KINDS)) as hanging:
        for number, kind in enumerate(KINDS, 1):
            hanging.named(kind)
            hanging.release(kind)
            wait_for(
                lambda number=number: len(hanging.lines("rank 3 goes on after")) == number,  # type: ignore[misc]
                "the line that it goes on",
            )
        assert len(hanging.lines("no progress")) == len(KINDS)


FROZEN = """
package = f"{folder}/site-packages"
sys.path.insert(0, package)
from torch.distributed.distributed_c10d import all_reduce
say("is up")
all_reduce()
"""


def test_a_node_that_is_frozen_is_named_and_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    package(tmp_path)
    with Job(cluster, tmp_path, FROZEN, "--hang_timeout", "2", "--heartbeat_timeout", "60") as job:
        frozen = [*job.launchers("n2"), *job.pids("n2")]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            words = "ranks 0-1 wait in all_reduce .*ranks 2-3 .n2.: n2 has not answered for [2-9] s"
            job.running.wait_for_output(words, 20.0)
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
        job.running.wait_for_output("ranks 2-3 go on after", 20.0)


TRAINING = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(30):
    if step == 20 and dist.get_rank() == 3:
        dist.barrier()
    dist.all_reduce(torch.ones(4, 8))
print("is done", flush=True)
"""


@pytest.mark.usefixtures("torch_is_here")
def test_a_collective_that_a_rank_has_skipped(dsrun: Dsrun, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    options = "--host", "n1:2,n2:2", "--hang_timeout", "3", "--on_hang", "stop", "--grace", "1"
    ran = dsrun(*options, str(script))
    assert ran.returncode == NO_PROGRESS, ran.stderr
    assert "rank 3 (n2) waits in barrier (train.py:8)" in ran.stderr
    assert "dsrun: stopped the job after " in ran.stderr


@pytest.mark.tier("all")
@pytest.mark.parametrize("kind", KINDS)
def test_each_hang_is_named_in_time(cluster: Cluster, tmp_path: Path, kind: str) -> None:
    took = []
    for number in range(20):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        with Hanging(cluster, folder, (kind,)) as hanging:
            took.append(hanging.named(kind))
            hanging.release(kind)
    print(f"{kind}: {sorted(round(one, 2) for one in took)}")
    assert max(took) <= TIMEOUT + 2


@pytest.mark.tier("all")
@pytest.mark.parametrize("what", [*HEALTHY, *ALL_HEALTHY])
def test_what_is_healthy_is_never_called_a_hang(
    cluster: Cluster, tmp_path: Path, what: str
) -> None:
    for number in range(10):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        assert healthy(cluster, folder, what) == []
