"""A worker that trains with the others and fails when it is told to: `step.py FOLDER RANK`.

It does as `fail.py`, but is up once it has finished a step with all others.
"""

import os
import sys
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

folder, failing = Path(sys.argv[1]), sys.argv[2]
rank = os.environ["RANK"]


def note(name: str) -> None:
    part = folder / f"{name}.part"
    part.write_text(str(time.monotonic()))
    part.rename(folder / name)


torch.set_num_threads(1)
distributed.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def step() -> None:
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()


step()
again = (folder / f"up-{rank}").exists()
note(f"again-{rank}" if again else f"up-{rank}")
end = time.monotonic() + 60
while time.monotonic() < end:
    step()
    time.sleep(0.01)
    if rank == failing and not again and (folder / "go").exists():
        note("failed")
        os._exit(7)
