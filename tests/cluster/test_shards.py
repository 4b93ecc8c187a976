"""Shard queues over real hosts: whatever dies, every sample is trained once an epoch."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from ..support.needs import need_modules
from .command import CHECKOUT
from .jobs import options
from .paused import paused
from .scripts import script

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun, Running
    from .hosts import Cluster

EXAMPLE = str(CHECKOUT / "examples" / "train_shards.py")
SIZE = 2000
SHORT = ("--size", f"{SIZE}", "--shard", "100", "--batch", "8", "--log_every", "5", "--history")
SAVE = ("--checkpoint_every", "7", "--checkpoint", "model.pt")
QUEUE = ("--shard_queue", "--export", f"PYTHONPATH={CHECKOUT}/tests/import", "--accelerator", "cpu")
ELASTIC = ("--elastic_training", "--grace", "2", "--heartbeat_timeout", "6")
TIMEOUT = 180.0

SHARE = """
from dsrun.accelerator.shards import ShardQueue

with ShardQueue("all", size=1000, shard=7, epochs=2) as queue:
    for shard in queue:
        open(f"has-{rank}", "w").close()
        for other in range(3):
            wait_for_file(f"has-{other}")
        print("trained", *shard, flush=True)
        queue.done(shard)
"""

HOLD = """
from dsrun.accelerator.shards import ShardQueue

first = os.environ["WORLD_SIZE"] == "2" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
queue = ShardQueue("all", size=1000, shard=10)
for count, shard in enumerate(queue):
    if first and count == 20:
        print("holds", shard.number, queue.take().number, flush=True)
        signal.pause()
    print("trained", *shard, flush=True)
    queue.done(shard)
"""


def numbers(output: str) -> list[int]:
    """All samples that workers say they have trained on."""
    lines = re.findall(r"(?m)^\w+:\d+\| trained (.*)$", output)
    return sorted(int(one) for line in lines for one in line.split())


def ranks(output: str) -> set[str]:
    return set(re.findall(r"(?m)^(\w+:\d+)\| trained ", output))


def worker(cluster: Cluster, host: str, name: str) -> int:
    """The worker on a host that runs this script."""
    (found,) = [p.pid for p in cluster.processes() if p.host == host and p.job and name in p.argv]
    return found


@pytest.mark.parametrize("launcher", ["ssh", "pdsh", "openmpi5", "mpich4"])
def test_workers_of_all_hosts_share_a_queue(dsrun: Dsrun, tmp_path: Path, launcher: str) -> None:
    where = ("--host", "n1:2,n2:1", *options(launcher))
    ran = dsrun(*where, *QUEUE, script(tmp_path, SHARE))
    assert ran.returncode == 0, ran.stderr
    assert numbers(ran.stdout) == sorted([*range(1000)] * 2)
    assert ranks(ran.stdout) == {"n1:0", "n1:1", "n2:2"}


@pytest.mark.parametrize("lost", ["rank", "node"])
def test_what_the_lost_had_taken_goes_to_the_others(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, lost: str
) -> None:
    """Workers without a checkpoint: what is done stays done, over all rounds."""
    need_modules("torch")
    work = script(tmp_path, HOLD)
    running = dsrun.start("--host", "n1:1,n2:1", *ELASTIC, *QUEUE, work)
    running.wait_for_output(r"(?s)(holds \d+ \d+.*){2}", TIMEOUT)
    if lost == "rank":
        os.kill(worker(cluster, "n2", work), signal.SIGKILL)
        ran = running.wait(TIMEOUT)
    else:
        with cluster.host("n2").powered_off():
            ran = running.wait(TIMEOUT)
    assert ran.returncode == 0, ran.stderr
    assert numbers(ran.stdout) == list(range(1000))


@pytest.fixture
def training(dsrun: Dsrun, tmp_path: Path) -> Running:
    """The example on three hosts, amid its first epoch, where it waits."""
    need_modules("torch")
    return begin(dsrun, tmp_path, "queue")


def begin(dsrun: Dsrun, folder: Path, by: str) -> Running:
    cache = ("--export", f"TORCHINDUCTOR_CACHE_DIR={folder}/inductor")
    where = ("--host", "n1:1,n2:1,n3:1", *ELASTIC, *QUEUE, *cache)
    running = dsrun.start(*where, paused(folder, EXAMPLE, 15), "--by", by, *SHORT, *SAVE)
    running.wait_for_output(r"step +15 ", TIMEOUT)
    return running


def trained(file: Path) -> Counter[tuple[int, int]]:
    """How often the model in a checkpoint has seen each (epoch, sample)."""
    import torch

    saved: dict[str, Any] = torch.load(file, "cpu", weights_only=True)
    assert len(saved["history"]) == saved["step"]
    return Counter(sample for step in saved["history"] for sample in step)


def ended_whole(running: Running, folder: Path, world: int) -> str:
    """The job ends well, and has trained on each sample once an epoch; its words."""
    ran = running.wait(TIMEOUT)
    assert ran.returncode == 0, ran.stderr
    assert re.search(rf"world size {world}, [1-9]\d* steps done before", ran.stdout)
    whole = {(epoch, one): 1 for epoch in range(2) for one in range(SIZE)}
    seen = trained(folder / "model.pt")
    # A sampler's last step is filled up with the beginning of the epoch after the last.
    assert {one: times for one, times in seen.items() if one[0] < 2} == whole
    return ran.stderr


@pytest.mark.tier("all")
def test_a_rank_is_killed_and_no_sample_is_lost_or_doubled(
    cluster: Cluster, training: Running, tmp_path: Path
) -> None:
    os.kill(worker(cluster, "n2", str(tmp_path / "paused.py")), signal.SIGKILL)
    said = ended_whole(training, tmp_path, 3)
    assert "restart 1/100: rank 1 on n2 was killed by signal 9" in said


@pytest.mark.tier("all")
def test_the_first_node_loses_power_and_no_sample_is_lost_or_doubled(
    cluster: Cluster, training: Running, tmp_path: Path
) -> None:
    with cluster.host("n1").powered_off():
        said = ended_whole(training, tmp_path, 2)
    assert "dsrun: lost n1: " in said


@pytest.mark.tier("all")
def test_with_a_sampler_likewise(cluster: Cluster, dsrun: Dsrun, tmp_path: Path) -> None:
    need_modules("torch")
    running = begin(dsrun, tmp_path, "sampler")
    with cluster.host("n3").powered_off():
        ended_whole(running, tmp_path, 2)
