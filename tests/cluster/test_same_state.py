"""A training with faults has, at its end, the very state of the same training without any.

The arithmetic is exact: samples, weights and momentum are integers in float64, far below 2**53,
products and sums of which have no rounding in any order; DDP sums gradients (its own mean would
multiply by 1/3), and the optimizer rounds to integers. Remainders keep these small, and forget
nothing. A step takes the same samples whatever the number of ranks. So a sample that is lost or
doubled, or a state that is half a checkpoint, shows as other bits.

`DSRUN_FAULTS=20` has twenty things happen, one after another; else each kind happens once.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import pytest

from ..support.limits import HANG
from .command import CHECKOUT
from .jobs import launchers
from .reaching import find
from .rounds import node_launcher
from .test_soak import LEASE, Watch, blinks, freezes, kills

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from .command import Dsrun, Running
    from .hosts import Cluster

pytestmark = [pytest.mark.tier("all"), pytest.mark.usefixtures("torch_is_here")]

HOSTS = ("n1", "n2", "n3", "n4")
SIZE, BATCH, EVERY = 240, 12, 5
"""Samples of an epoch, those of a step over all ranks, and steps between checkpoints."""

TRAIN = f"""
import hashlib, os, sys, time
from pathlib import Path
import torch
import torch.distributed as dist
import torch.distributed.nn
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from dsrun.accelerator.data import ElasticSampler

file, epochs, pause = Path(sys.argv[-3]), int(sys.argv[-2]), float(sys.argv[-1])
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

def from_rank_0(read):
    box = [read() if rank == 0 else None]
    dist.broadcast_object_list(box)
    return box[0]

def integers(*shape, salt):
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 7919 + salt * 104729) % 17 - 8).double().reshape(shape)

def add(_, bucket):
    future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return future.then(lambda done: done.value()[0])

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).double()
with torch.no_grad():
    for salt, each in enumerate(model.parameters()):
        each.copy_(integers(*each.shape, salt=salt))
momentum = [torch.zeros_like(each) for each in model.parameters()]
sampler, step, history = ElasticSampler({SIZE}, batch={BATCH} // world, seed=5), 0, []
saved = from_rank_0(lambda: torch.load(file, weights_only=True) if file.exists() else None)
if saved:
    step, history, momentum = saved["step"], saved["history"], saved["momentum"]
    model.load_state_dict(saved["model"])
    sampler.load_state_dict(saved["data"])
ddp = DistributedDataParallel(model)
ddp.register_comm_hook(None, add)
if rank == 0:
    print("world size", world, "after", step, "steps", flush=True)

def save():
    state = dict(step=step, history=history, momentum=momentum)
    with open(f"{{file}}.part", "wb") as stream:
        torch.save(dict(state, model=model.state_dict(), data=sampler.state_dict()), stream)
        os.fsync(stream.fileno())
    os.replace(f"{{file}}.part", file)

def over():
    return sampler.epoch >= epochs or os.path.exists(f"{{file}}.end")

while sampler.position or not from_rank_0(over):
    epoch, taken = sampler.epoch, list(sampler)[:{BATCH} // world]
    inputs = torch.stack([integers(8, salt=sample + epoch) for sample in taken])
    wanted = torch.stack([integers(1, salt=3 * sample) for sample in taken])
    outputs = ddp(inputs)
    wrong = (outputs.detach() - wanted).remainder(199) - 99
    ddp.zero_grad()
    (outputs * wrong).sum().backward()
    with torch.no_grad():
        for each, moved in zip(model.parameters(), momentum):
            moved.mul_(0.5).trunc_().add_(each.grad)
            each.sub_((moved / 1024).round_()).remainder_(1000).sub_(500)
    boxes = [None] * world
    dist.all_gather_object(boxes, taken)
    history.append([(epoch, sample) for box in boxes for sample in box])
    sampler.trained(len(taken))
    step += 1
    if rank == 0:
        print(f"step {{step:5}} of world {{world}}", flush=True)
        if step % {EVERY} == 0 or not sampler.position:
            save()
    time.sleep(pause)
dist.destroy_process_group()
"""
"""Integers from -8 to 8 are trained on, until an epoch is over and the test wants no more."""


def worker(cluster: Cluster, host: str) -> int:
    """The worker on a host."""
    return find(cluster, host, lambda p: p.argv[1:2] == ("-u",) and "/train.py" in p.argv[2])


WHAT: dict[str, Callable[[Cluster, str], AbstractContextManager[None]]] = {
    "worker killed": lambda cluster, host: kills(worker(cluster, host)),
    "node launcher killed": lambda cluster, host: kills(node_launcher(cluster, host)),
    "guard killed": lambda cluster, host: kills(launchers(cluster, host)[-1][0]),
    "power out": lambda cluster, host: cluster.host(host).powered_off(),
    "cable out for a moment": blinks,
    "cable out": lambda cluster, host: cluster.host(host).unplugged(),
    "node launcher frozen": lambda cluster, host: freezes(node_launcher(cluster, host), cluster),
}
"""What happens to a host; at the end of the block the host is whole again."""

FAULTS = int(os.environ.get("DSRUN_FAULTS", len(WHAT)))


def start(dsrun: Dsrun, folder: Path, epochs: int, pause: float) -> Running:
    """Start the training on all hosts, with a step every so many seconds."""
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return dsrun.start(
        "--host", ",".join(f"{host}:1" for host in HOSTS), "--elastic_training",
        "--min_wait", "60", "--cool_down", "10", "--grace", "2",
        "--heartbeat_timeout", f"{LEASE:g}", "--accelerator", "cpu",
        "--export", f"PYTHONPATH={CHECKOUT}/tests/import",
        "--export", f"TORCHINDUCTOR_CACHE_DIR={folder}/inductor",
        str(folder / "train.py"), str(folder / "model.pt"), f"{epochs}", f"{pause}",
    )  # fmt: skip


def happens(cluster: Cluster, running: Running, what: str, host: str) -> float:
    """Let something happen to a host; return the seconds until the training goes on.

    Only what nobody should notice costs no round; all hosts are in the job again at the end.
    """

    def rounds() -> int:
        return len(re.findall(r"\| world size", running.stdout))

    watch, before, began = Watch(running), rounds(), time.monotonic()
    with WHAT[what](cluster, host):
        if what != "cable out for a moment":
            watch.wait(lambda: rounds() > before, f"a round after: {what} on {host}")
        watch.goes_on(f"{what} on {host}")
        seconds = time.monotonic() - began
    watch.wait(lambda: watch.world == len(HOSTS), f"all hosts after: {what} on {host}")
    watch.goes_on(f"all hosts are back after: {what} on {host}")
    return seconds


def state(folder: Path) -> dict[str, Any]:
    """The last checkpoint."""
    import torch

    saved: dict[str, Any] = torch.load(folder / "model.pt", "cpu", weights_only=True)
    return saved


def bits(saved: dict[str, Any]) -> dict[str, bytes]:
    """Parameters and momentum, byte for byte."""
    moved = {f"momentum {place}": one for place, one in enumerate(saved["momentum"])}
    return {name: one.numpy().tobytes() for name, one in {**saved["model"], **moved}.items()}


def test_faults_change_no_bit_of_the_state(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hurt = start(dsrun, tmp_path / "hurt", 10**6, 0.05)
    Watch(hurt).goes_on("the start")
    for number, what in enumerate(islice(cycle(WHAT), FAULTS)):
        host = HOSTS[number % len(HOSTS)]
        seconds = happens(cluster, hurt, what, host)
        with capsys.disabled():
            print(f"\n  {number + 1}: {what} on {host}: {seconds:.1f} s", end="", flush=True)
    (tmp_path / "hurt" / "model.pt.end").touch()
    assert hurt.wait(HANG).returncode == 0, str(hurt)
    seen = state(tmp_path / "hurt")
    epochs = seen["data"]["epoch"]
    undisturbed = start(dsrun, tmp_path / "undisturbed", epochs, 0.0)
    assert undisturbed.wait(HANG).returncode == 0, str(undisturbed)
    expected = state(tmp_path / "undisturbed")
    told = len(re.findall(r"\| step ", hurt.stdout))
    with capsys.disabled():
        print(f"\n  {seen['step']} steps in {epochs} epochs, {told} with those done again", end="")
    assert bits(seen) == bits(expected)
    once = {(epoch, sample): 1 for epoch in range(epochs) for sample in range(SIZE)}
    assert Counter(sample for one in seen["history"] for sample in one) == once
    assert told > seen["step"] == expected["step"]
