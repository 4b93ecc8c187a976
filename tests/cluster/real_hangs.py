"""Jobs of the real torch over gloo that hang as trainings do, or only look so; one kind per job.

In `real_training.py` one rank does something else while the other waits for it. Here all ranks wait
for each other, at different places.
"""

from __future__ import annotations

from typing import NamedTuple

TIMEOUT = 3
"""Seconds, `--hang_timeout`."""

PROGRAM = """
import fcntl, os, queue, select, socket, sys, threading, time
import torch
import torch.distributed as dist
from torch.nn import BatchNorm1d, Linear, Sequential
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
last = size - 1
print("is up", flush=True)

def train(model, steps, skipped=-1, collected=1, forward=-1):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        if step == skipped:
            continue
        if (step + 1) % collected:
            with model.no_sync():
                model(torch.randn(16, 8)).mean().backward()
            continue
        loss = model(torch.randn(16, 8)).mean()
        if step == forward:
            continue
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()

def normed():
    return DDP(Sequential(Linear(8, 8), BatchNorm1d(8), Linear(8, 1)))

def leaves_early():
    train(normed(), 7 if rank == last else 10)

def leaves_as_rank_0():
    train(normed(), 7 if rank == 0 else 10)

def half_leave():
    train(normed(), 7 if rank % 2 else 10)

def skips_a_step():
    train(normed(), 10, skipped=4 if rank == last else -1)

def skips_backward():
    train(normed(), 10, forward=4 if rank == last else -1)

def collects_otherwise():
    train(normed(), 12, collected=3 if rank == last else 2)

def shards():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    model = Sequential(Linear(8, 8), Linear(8, 1))
    fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
    train(model, 7 if rank == last else 10)

def shards_as_before():
    from torch.distributed.fsdp import FullyShardedDataParallel
    model = Sequential(Linear(8, 8), Linear(8, 1))
    train(FullyShardedDataParallel(model, device_id=torch.device("cpu")), 7 if rank == last else 10)

def makes_no_group():
    if rank != last:
        dist.new_group([*range(size)])
    dist.barrier()

def gathers_objects():
    if rank == last:
        time.sleep(1000)
    dist.all_gather_object([None] * size, rank)

def monitors():
    if rank == last:
        dist.all_reduce(torch.ones(4))
    dist.monitored_barrier()

def sets_no_key():
    if rank == last:
        time.sleep(1000)
    dist.distributed_c10d._get_default_store().get("key")

def saves_alone():
    import torch.distributed.checkpoint as checkpoint
    if rank != last:
        checkpoint.save({{"one": torch.ones(4)}}, checkpoint_id="checkpoint")
    dist.barrier()

def passes_nothing_on():
    value = torch.ones(4)
    if rank > 0:
        dist.recv(value, rank - 1)
    if rank == 1:
        time.sleep(1000)
    if rank < last:
        dist.send(value, rank + 1)

def sleeps_in_a_stage():
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    class Stage(torch.nn.Module):
        def forward(self, value):
            if rank == 1 and value.mean().item() == 4.0:
                time.sleep(1000)
            return value
    stage = PipelineStage(Stage(), rank, size, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 4)
    for step in range(6):
        schedule.step(*[torch.full((8, 8), float(step))] * (rank == 0))

def pass_on(steps=4, seconds={timeout} - 1):
    value = torch.ones(4)
    for _ in range(steps):
        if rank > 0:
            dist.recv(value, rank - 1)
        time.sleep(seconds)
        if rank < last:
            dist.send(value, rank + 1)

def writes():
    if rank == 0:
        for _ in range(3 * {timeout} * 4):
            with open("checkpoint", "ab", buffering=0) as file:
                file.write(os.urandom(5 << 10))
            time.sleep(0.25)
    dist.barrier()

def wait_for_a_timer():
    values = queue.Queue()
    threading.Timer(3 * {timeout}, values.put, [1]).start()
    values.get()

def serve_behind_a_path():
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"socket-{{rank}}")
        server.listen()
        values = queue.Queue()
        threading.Thread(target=poll, args=[server, values], daemon=True).start()
        threading.Timer(3 * {timeout}, call, [f"socket-{{rank}}"]).start()
        values.get()

def poll(server, values):
    "Wait as ZeroMQ's thread does: the stack does not show for what."
    watch = select.epoll()
    watch.register(server)
    values.put(watch.poll())

def call(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)

def lock():
    file = open("lock", "w")
    if rank == 0:
        fcntl.flock(file, fcntl.LOCK_EX)
    dist.barrier()
    if rank == 0:
        time.sleep(1000)
    fcntl.flock(file, fcntl.LOCK_EX)

def all_want_a_key():
    dist.distributed_c10d._get_default_store().get("key")

globals()[sys.argv[-1]]()
print("is done", flush=True)
"""


class Hang(NamedTuple):
    """What is said of a kind: the ranks for which the others wait, and a part of the sentence."""

    ranks: list[int]
    words: str
    size: int = 3


HANGS = {
    "leaves_early": Hang([2], r"rank 2 \(n1\) waits in barrier .* is broadcast in ranks 0-1 and"),
    "makes_no_group": Hang([2], r"ranks 0-1 wait for the other ranks in new_group .*; rank 2"),
    "half_leave": Hang([], "ranks? .* waits? in barrier", 4),
    "sets_no_key": Hang([2], "ranks 0-1 wait for a key of torch's store .*; rank 2 .* sleeps in"),
    "leaves_as_rank_0": Hang([0], "ranks 1-2 wait in _sync_buffers .*; rank 0 .* waits in barrier"),
    "skips_a_step": Hang([2], "waits in barrier"),
    "skips_backward": Hang(
        [2], "ranks 0-1 wait in all_reduce .*; rank 2 .* waits in _sync_buffers"
    ),
    "collects_otherwise": Hang([2], "waits in barrier"),
    "shards": Hang([2], "ranks 0-1 wait in .*; rank 2 .* waits in barrier"),
    "shards_as_before": Hang([2], "ranks 0-1 wait in all_gather .*; rank 2 .* waits in barrier"),
    "gathers_objects": Hang([2], "ranks 0-1 wait in all_gather_object .*; rank 2 .* sleeps in"),
    "monitors": Hang([2], "ranks 0-1 wait in monitored_barrier .*; rank 2 .* waits in all_reduce"),
    "saves_alone": Hang([2], "ranks 0-1 wait in save .*; rank 2 .* waits in barrier"),
    "sleeps_in_a_stage": Hang([1], "ranks? .*2 waits? in step .*; rank 1 .* sleeps in"),
    "passes_nothing_on": Hang([1], "rank 2 waits in recv .*; rank 1 .* sleeps in"),
}
"""How ranks wait for each other, and whom the others wait for."""

HEALTHY = ("pass_on", "serve_behind_a_path", "writes", "wait_for_a_timer")
"""What ends by itself, and lasts longer than `--hang_timeout`."""

SILENT = {
    "all_want_a_key": "all 3 ranks wait for a key of torch's store in all_want_a_key",
    "lock": r"ranks 1-2 \(n1\) wait for a file lock held by pid \d+ in lock .*; rank 0 .* sleeps",
}
"""Waits in which no rank waits for another, and the line that comes late."""
