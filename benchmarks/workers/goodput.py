"""A worker that trains, keeps its place, and dies when it is told to: `goodput.py FOLDER PAUSE`.

Rank 0 writes one line for each step into FOLDER/steps: the number of the step and the moment. Every
rank goes on from the last line there. A rank N that finds FOLDER/kill-N removes it and is killed by
SIGKILL. PAUSE seconds stand for the work of a step, so that processors are not what is measured.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

folder, pause = Path(sys.argv[1]), float(sys.argv[2])
rank = int(os.environ["RANK"])
steps, order = folder / "steps", folder / f"kill-{rank}"

torch.set_num_threads(1)
distributed.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
number = torch.tensor(len(steps.read_text().splitlines()) if rank == 0 and steps.exists() else 0)
distributed.broadcast(number, 0)

while True:
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    time.sleep(pause)
    number += 1
    if rank == 0:
        with steps.open("a") as file:
            file.write(f"{number} {time.monotonic()}\n")
    if order.exists():
        order.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
