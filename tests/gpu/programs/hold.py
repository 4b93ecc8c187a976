"""Hold this share of the device's memory, as a process that another job has left would."""

import os
import signal
import sys

import torch

total = torch.cuda.get_device_properties(0).total_memory
held = torch.empty(int(total * float(sys.argv[-1])), dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("holds", held.numel() >> 20, "MiB, pid", os.getpid(), flush=True)
while True:
    signal.pause()
