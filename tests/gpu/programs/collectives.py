"""Reduce, broadcast and gather over NCCL, on device 0 whatever the rank; wait if told to."""

import os
import signal
import sys

import torch
import torch.distributed as dist

torch.cuda.set_device(0)
dist.init_process_group("nccl")
one = torch.ones(1024, device="cuda")
dist.all_reduce(one)
dist.broadcast(one, 0)
gathered = torch.empty(1024 * dist.get_world_size(), device="cuda")
dist.all_gather_into_tensor(gathered, one)
dist.barrier()
torch.cuda.synchronize()
print("reduced", one.sum().item(), "gathered", gathered.sum().item(), flush=True)
if "wait" in sys.argv:
    print("up", os.environ["TORCHELASTIC_RUN_ID"], flush=True)
    while True:
        signal.pause()
dist.destroy_process_group()
