"""Hang: a kernel of rank 0 does not end, and rank 1 waits for rank 0 on the CPU."""

import os

import torch
import torch.distributed as dist

LONG = 1 << 40
"""Cycles, some minutes; several such kernels are an hour."""


def spin() -> None:
    """Wait for kernels that do not end."""
    for _ in range(8):
        torch.cuda._sleep(LONG)  # type: ignore[no-untyped-call]
    print("up", os.environ["TORCHELASTIC_RUN_ID"], flush=True)
    torch.cuda.synchronize()


dist.init_process_group("gloo")
one = torch.ones(8)
dist.all_reduce(one)
if dist.get_rank() == 0:
    spin()
dist.all_reduce(one)
