"""Hold so many MiB of the device and keep it busy until the end; print the job's id first."""

import os
import sys

import torch

held = torch.empty(int(sys.argv[-1]) << 20, dtype=torch.uint8, device="cuda")
one = torch.ones(4096, 4096, device="cuda")
torch.cuda.synchronize()
print("up", os.environ["TORCHELASTIC_RUN_ID"], flush=True)
while True:
    for _ in range(20):
        one @ one
    torch.cuda.synchronize()
