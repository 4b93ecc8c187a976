"""Train a character-level language model with DistributedDataParallel, on GPUs or on CPUs.

Each process is one rank and reads RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT:

    python examples/train_ddp.py
    torchrun --nproc_per_node 2 examples/train_ddp.py
    dsrun --hostfile hosts examples/train_ddp.py --checkpoint model.pt

The batch of a step is the same for any number of ranks, and each rank processes its share. In
double precision the order of the sums does not matter, so the losses depend only on the seed.

With --checkpoint, the training resumes from that file if it exists. Only rank 0 reads and writes
it, so no shared folder is needed. The file is saved every --checkpoint_every steps, at the end, and
after a step in which any rank got a signal. SIGUSR1 saves and continues; after SIGTERM and a save,
all ranks exit with 0.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

# Import this before a group exists: its functions keep the current group as a default argument.
# That group would outlive destroy_process_group, and gloo's threads would sometimes crash the exit.
import torch.distributed.nn
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

CHARACTERS = 128  # ASCII


def main() -> None:
    train(parse_options(), join_group())
    dist.destroy_process_group()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a character-level language model.")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=4096, help="examples per step, over all ranks")
    parser.add_argument("--context", type=int, default=8, help="characters per prediction")
    parser.add_argument("--lr", type=float, default=0.015)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--text", type=Path, help="training text; default: Python's own library")
    parser.add_argument("--log_every", type=int, default=10, metavar="STEPS")
    parser.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="file to resume from and to save"
    )
    parser.add_argument("--checkpoint_every", type=int, default=20, metavar="STEPS")
    # DeepSpeed's launcher and dsrun pass this to every script; LOCAL_RANK has the same value.
    parser.add_argument("--local_rank", "--local-rank", help=argparse.SUPPRESS)
    return parser.parse_args()


def join_group() -> torch.device:
    """Join the other ranks, over NCCL if each has its own GPU, otherwise over gloo."""
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    local_rank = int(os.environ["LOCAL_RANK"])
    ranks_here = int(os.environ.get("LOCAL_WORLD_SIZE", local_rank + 1))
    if ranks_here <= torch.cuda.device_count():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", init_method="env://", device_id=device)
        return device
    if "OMP_NUM_THREADS" not in os.environ:  # torch reads it
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks_here))
    dist.init_process_group("gloo", init_method="env://")
    return torch.device("cpu")


def train(options: argparse.Namespace, device: torch.device) -> None:
    began = time.monotonic()
    text = from_rank_0(read_text, options.text)
    saved = from_rank_0(read_checkpoint, options.checkpoint)
    training = Training(options, device, saved)
    first = training.step
    print_once(
        f"world size {dist.get_world_size()}, {dist.get_backend()}, {first} steps done before"
    )
    run(training, text, options)
    print_once(f"{training.step - first} steps in {time.monotonic() - began:.1f} s")


def print_once(line: str) -> None:
    if dist.get_rank() == 0:
        print(line, flush=True)


def from_rank_0(read: Callable[[Path | None], Any], file: Path | None) -> Any:
    """Read a file on rank 0 and return the result on all ranks: other hosts may lack the file."""
    box = [read(file) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box)
    return box[0]


def read_text(file: Path | None) -> Tensor:
    files = [file] if file else sorted(Path(sysconfig.get_path("stdlib")).glob("[a-d]*.py"))
    text = "\n".join(each.read_text(encoding="utf-8") for each in files)
    return torch.frombuffer(bytearray(text, "ascii", "replace"), dtype=torch.uint8)


def read_checkpoint(file: Path | None) -> Any:
    return torch.load(file, "cpu", weights_only=True) if file and file.exists() else None


def write_checkpoint(file: Path, checkpoint: dict[str, Any]) -> None:
    """Replace the file atomically, so that it is never half a checkpoint."""
    if dist.get_rank() == 0:
        part = file.with_name(file.name + ".part")
        with part.open("wb") as stream:
            torch.save(checkpoint, stream)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)


def character_model(context: int, embedding: int = 24, hidden: int = 256) -> nn.Sequential:
    """Map the last characters, [n, context], to logits of the next one, [n, CHARACTERS]."""
    first, last = nn.Linear(context * embedding, hidden), nn.Linear(hidden, CHARACTERS)
    return nn.Sequential(nn.Embedding(CHARACTERS, embedding), nn.Flatten(), first, nn.ReLU(), last)


class Training:
    """The state in a checkpoint, and one training step."""

    def __init__(self, options: argparse.Namespace, device: torch.device, saved: Any) -> None:
        torch.manual_seed(options.seed)
        self.model = character_model(options.context).to(device, torch.float64)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=options.lr)
        self.step, self.loss = 0, math.nan
        if saved:
            self.step, self.loss = saved["step"], saved["loss"]
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
        self.ddp, self.device = DistributedDataParallel(self.model), device

    def checkpoint(self) -> dict[str, Any]:
        states = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        return {"step": self.step, "loss": self.loss, **states}

    def advance(self, inputs: Tensor, targets: Tensor, batch: int) -> Tensor:
        """Train on this rank's share of a batch; return its part of the mean loss."""
        logits = self.ddp(inputs.to(self.device))
        total = functional.cross_entropy(logits, targets.to(self.device), reduction="sum")
        self.optimizer.zero_grad()
        # DDP averages over ranks, whose shares may differ in size, so average over samples instead.
        torch.autograd.backward(total / batch * dist.get_world_size())
        self.optimizer.step()
        self.step += 1
        return total.detach() / batch


def share_of_batch(text: Tensor, step: int, options: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """Return this rank's inputs [n, context] and targets [n]; with many ranks n may be 0."""
    dice = torch.Generator().manual_seed(options.seed * 1_000_003 + step)
    starts = torch.randint(len(text) - options.context, (options.batch,), generator=dice)
    mine = starts.tensor_split(dist.get_world_size())[dist.get_rank()]
    rows = text[mine[:, None] + torch.arange(options.context + 1)].long()
    return rows[:, :-1], rows[:, -1]


def agree(share: Tensor, seen: set[int]) -> tuple[float, bool, bool]:
    """Return the mean loss, whether to save, and whether to stop; equal on all ranks."""
    signals = seen.copy()
    seen -= signals  # not clear(): another signal may have arrived in between
    mine = [share.item(), signal.SIGUSR1 in signals, signal.SIGTERM in signals]
    everyone = torch.tensor(mine, dtype=share.dtype, device=share.device)
    dist.all_reduce(everyone)
    loss, save, stop = everyone.tolist()
    return loss, save > 0, stop > 0


def run(training: Training, text: Tensor, options: argparse.Namespace) -> None:
    file = options.checkpoint
    seen: set[int] = set()
    stop = False
    if file:  # without a checkpoint file, signals keep their default effects
        for each in (signal.SIGUSR1, signal.SIGTERM):
            signal.signal(each, lambda number, _frame: seen.add(number))
    while training.step < options.steps and not stop:
        share = training.advance(*share_of_batch(text, training.step, options), options.batch)
        training.loss, save, stop = agree(share, seen)
        if training.step == 1 or training.step % options.log_every == 0:
            print_once(f"step {training.step:4}  loss {training.loss:.4f}")
        due = training.step % options.checkpoint_every == 0 or training.step == options.steps
        if file and (due or save or stop):
            write_checkpoint(file, training.checkpoint())
    print_once("stopped by SIGTERM" if stop else f"final loss {training.loss:.4f}")


if __name__ == "__main__":
    main()
