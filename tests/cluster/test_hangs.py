"""Jobs that hang, on hosts: the rank that the others wait for is named, and no other is."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import NO_PROGRESS

from .hanging import ALL_HEALTHY, HEALTHY, KINDS, Hanging, healthy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .command import Dsrun
    from .hosts import Cluster
    from .jobs import Job


@contextmanager
def frozen(job: Job, host: str) -> Iterator[None]:
    """Let nothing of a job on a host do anything."""
    pids = [*job.launchers(host), *job.pids(host)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.tier("test")
def test_a_rank_is_named_in_whatever_way_it_hangs(cluster: Cluster, tmp_path: Path) -> None:
    kinds = [kind for kind in KINDS if kind != "sleeps"]
    with Hanging(cluster, tmp_path, tuple(kinds)) as hanging:
        for number, kind in enumerate(kinds, 1):
            hanging.named(kind)
            hanging.release(kind)
            hanging.goes_on(number)
        assert len(hanging.lines("no progress")) == len(kinds)
        with frozen(hanging.job, "n2"):
            # Whose workers had no CPU for as long on a busy machine is said not to answer in time.
            words = r"n2 has not answered for [0-9]+ s|no stacks within [0-9]+ s"
            hanging.job.running.wait_for_output(rf"dsrun: no progress .*\(n2\): (?:{words})")
        hanging.goes_on(len(kinds) + 1)


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
    options = "--host", "n1:2,n2:2", "--hang_timeout", "4", "--on_hang", "stop", "--grace", "1"
    ran = dsrun(*options, str(script))
    assert ran.returncode == NO_PROGRESS, ran.stderr
    assert "rank 3 (n2) waits in barrier (train.py:8)" in ran.stderr
    assert "dsrun: stopped the job after " in ran.stderr


@pytest.mark.tier("all")
@pytest.mark.parametrize("kind", KINDS)
def test_each_hang_is_named(cluster: Cluster, tmp_path: Path, kind: str) -> None:
    took = []
    for number in range(20):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        with Hanging(cluster, folder, (kind,)) as hanging:
            took.append(hanging.named(kind))
            hanging.release(kind)
    print(f"{kind}: {sorted(round(one, 2) for one in took)}")


@pytest.mark.tier("all")
@pytest.mark.parametrize("what", [*HEALTHY, *ALL_HEALTHY])
def test_what_is_healthy_is_never_called_a_hang(
    cluster: Cluster, tmp_path: Path, what: str
) -> None:
    for number in range(10):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        assert healthy(cluster, folder, what) == []
