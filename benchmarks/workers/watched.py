"""Train for some steps with DDP over gloo; rank 0 tells what a step takes, and what its node holds.

The last line of rank 0 is JSON: milliseconds of wall and of CPU time per step, and MB of memory
(PSS) of the node launcher, its guard and all workers.
"""

import json
import os
import sys
import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

PARENT = 1
"""The parent's field in /proc/PID/stat, counted from the state on (proc(5))."""


def parent(pid: int) -> int:
    """The parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[PARENT])


def held(pid: int) -> float:
    """The memory of a process in MB of 1,000,000 bytes, shared pages in parts."""
    table = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(table.partition("Pss:")[2].split()[0]) * 1.024 / 1000


torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]))
data, steps = torch.randn(64, 256), int(sys.argv[-1])
taken = []
cpu = time.process_time()
for _ in range(steps):
    began = time.perf_counter()
    model(data).sum().backward()
    taken.append(time.perf_counter() - began)
cpu = time.process_time() - cpu
dist.barrier()
if dist.get_rank() == 0:
    launcher = os.getppid()
    workers = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    memory = sum(map(held, [parent(launcher), launcher, *map(int, workers)]))
    told = {"step": 1e3 * median(taken), "cpu": 1e3 * cpu / steps, "memory": memory}
    print(json.dumps(told), flush=True)
dist.barrier()
os._exit(0)
