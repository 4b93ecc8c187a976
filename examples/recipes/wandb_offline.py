"""One run of Weights & Biases over all rounds of an elastic job, without a network.

    WANDB_MODE=offline dsrun --nproc_per_node 2 --max_restarts 3 examples/recipes/wandb_offline.py

Rank 1 fails once on purpose. All ranks start again from the checkpoint, and rank 0 continues the
run, because the run's id is the job's id. dsrun stops rank 0 with SIGTERM, and wandb writes its
data at the end of the `with` block.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
import wandb
from torch import Tensor, nn

CHECKPOINT = Path("wandb_model.pt")
STEPS, FAILS_AT = 8, 4


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    dist.init_process_group("gloo")
    first_round = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    torch.manual_seed(0)
    model, step = nn.Linear(8, 1), 0
    if CHECKPOINT.exists():
        saved = torch.load(CHECKPOINT, weights_only=True)
        model.load_state_dict(saved["model"])
        step = saved["step"]
    with run() if dist.get_rank() == 0 else nullcontext() as log:
        while step < STEPS:
            loss = train(model)
            if log is not None:
                log.log({"loss": loss}, step=step)
                print(f"step {step}: loss {loss:.3f}", flush=True)
            step += 1
            save(model, step)
            if first_round and step == FAILS_AT and dist.get_rank() == 1:
                sys.exit("rank 1 fails once, on purpose")
    dist.destroy_process_group()


def run() -> wandb.Run:
    """Begin the run, or continue it in a later round: all rounds use the same id."""
    return wandb.init(project="recipes", id=os.environ["DSRUN_JOB_ID"], resume="allow")


def train(model: nn.Linear) -> float:
    """Do a step of plain data parallelism; return the loss, averaged over the ranks."""
    inputs = torch.randn(64, 8)
    loss: Tensor = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            dist.all_reduce(gradient)
            parameter.sub_(0.1 * gradient / dist.get_world_size())
        dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def save(model: nn.Linear, step: int) -> None:
    """Replace the checkpoint, and let all ranks continue once it is written."""
    if dist.get_rank() == 0:
        part = CHECKPOINT.with_suffix(".part")
        torch.save({"model": model.state_dict(), "step": step}, part)
        part.replace(CHECKPOINT)
    dist.barrier()


if __name__ == "__main__":
    main()
