"""A worker that trains one step with the others, says when that was over, and is done."""

import time

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
distributed.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(8, 8))
model(torch.ones(4, 8)).sum().backward()
# In one write with its end, as Python's print does not with -u.
print(f"first step at {time.monotonic()}\n", end="")
del model  # or torch's process group is freed later, and aborts now and then (torch 2.13, gloo)
distributed.destroy_process_group()
