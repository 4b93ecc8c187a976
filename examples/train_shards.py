"""Train with DistributedDataParallel on shards from dsrun's queue, exact to the sample.

    python examples/train_shards.py
    dsrun --shard_queue --hostfile hosts examples/train_shards.py --checkpoint model.pt
    dsrun --shard_queue --hostfile hosts --elastic_training examples/train_shards.py \
        --checkpoint /shared/model.pt

Each rank takes a shard when it is ready for one. All ranks step together, so a rank that finds the
queue empty takes part in the steps with an empty batch until the other ranks are done as well.

The checkpoint has the model and the position of the queue at the same step. After a failure, the
training continues from there, and no sample of an epoch is lost or repeated. --history records the
samples that the model was trained on, in the order of the steps. With --by sampler, there is no
queue: an ElasticSampler gives each rank the same number of samples.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

# Import this before a group exists; train_ddp.py explains why.
import torch.distributed.nn
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dsrun.accelerator.data import ElasticSampler
from dsrun.accelerator.shards import Shard, ShardQueue

FEATURES = 16

Samples = list[tuple[int, int]]
"""Samples, each as its epoch and index."""


def main() -> None:
    if "RANK" not in os.environ:
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="env://")
    train(parse_options())
    dist.destroy_process_group()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train on shards, exact to the sample.")
    parser.add_argument("--by", choices=("queue", "sampler"), default="queue")
    parser.add_argument("--size", type=int, default=20_000, help="samples in the data set")
    parser.add_argument("--shard", type=int, default=256, help="samples in a shard")
    parser.add_argument("--batch", type=int, default=32, help="samples per step and rank")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log_every", type=int, default=50, metavar="STEPS")
    parser.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="file to resume from and to save"
    )
    parser.add_argument("--checkpoint_every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--history", action="store_true", help="save the samples used")
    # DeepSpeed's launcher adds this to every script's arguments.
    parser.add_argument("--local_rank", "--local-rank", help=argparse.SUPPRESS)
    return parser.parse_args()


class FromQueue:
    """Batches from the shards that this rank takes. `over` is true when all shards are done."""

    def __init__(self, options: argparse.Namespace, state: dict[str, Any] | None) -> None:
        size, shard, epochs = options.size, options.shard, options.epochs
        self._queue = ShardQueue("train", size=size, shard=shard, epochs=epochs, seed=options.seed)
        # Even without a checkpoint: the queue has counted work that the model has lost.
        self._queue.load_state_dict(state or {})
        self._batch = options.batch
        self._shard: Shard | None = None
        self._done = 0

    @property
    def over(self) -> bool:
        return self._queue.over

    def batch(self) -> Samples:
        """Return the next samples of this rank, or none if no shard is available now."""
        if self._shard is None:
            # Do not wait for other ranks here: they wait for this rank in the next step.
            self._shard, self._done = self._queue.take(wait=False), 0
        if self._shard is None:
            return []
        rest = list(self._shard)[self._done : self._done + self._batch]
        return [(self._shard.epoch, index) for index in rest]

    def trained(self, samples: int) -> None:
        """Report that the step is done."""
        if self._shard is not None:
            self._done += samples
            self._queue.done(self._shard, self._done)
            if self._done == len(self._shard):
                self._shard = None

    def state_dict(self) -> dict[str, Any]:
        return self._queue.state_dict()


class FromSampler:
    """Batches of an ElasticSampler, as a DataLoader makes them."""

    def __init__(self, options: argparse.Namespace, state: dict[str, Any] | None) -> None:
        self._sampler = ElasticSampler(options.size, seed=options.seed)
        if state:
            self._sampler.load_state_dict(state)
        self._options = options
        self._indices = iter(self._sampler)

    @property
    def over(self) -> bool:
        return bool(self._sampler.epoch >= self._options.epochs)

    def batch(self) -> Samples:
        """Return the next samples of this rank, which may extend into the next epoch."""
        if self.over:
            return []
        sampler, count = self._sampler, min(self._options.batch, len(self._sampler))
        places = range(sampler.position + sampler.rank, 2 * sampler.size, sampler.world_size)
        epochs = (sampler.epoch + place // sampler.size for place in places)
        return [(next(epochs), next(self._indices)) for _ in range(count)]

    def trained(self, samples: int) -> None:
        """Report that the step is done. At the end of an epoch, start the order of the next."""
        epoch = self._sampler.epoch
        self._sampler.trained(samples)
        if self._sampler.epoch != epoch:
            self._indices = iter(self._sampler)

    def state_dict(self) -> dict[str, Any]:
        return self._sampler.state_dict()


class Training:
    """The state in a checkpoint, and one training step."""

    def __init__(self, options: argparse.Namespace, saved: Any) -> None:
        torch.manual_seed(options.seed)
        layers = nn.Linear(FEATURES, 32), nn.Tanh(), nn.Linear(32, 1)
        self.model = nn.Sequential(*layers).to(torch.float64)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=options.lr)
        self.step = 0
        self.history: list[Samples] = []
        if saved:
            self.step, self.history = saved["step"], saved["history"]
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
        self.ddp = DistributedDataParallel(self.model)

    def checkpoint(self) -> dict[str, Any]:
        states = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        return {"step": self.step, "history": self.history, **states}

    def advance(self, batch: Samples, total: int) -> Tensor:
        """Train on this rank's part of `total` samples; return its part of the mean loss."""
        inputs, targets = data([index for _, index in batch])
        loss: Tensor = (self.ddp(inputs).squeeze(1) - targets).square().sum() / total
        self.optimizer.zero_grad()
        # DDP averages the gradients over the ranks. A rank without samples contributes zeros.
        torch.autograd.backward(loss * dist.get_world_size())
        self.optimizer.step()
        self.step += 1
        return loss.detach()


def data(indices: list[int]) -> tuple[Tensor, Tensor]:
    """Return made-up inputs [n, FEATURES] and targets [n], identical on all ranks."""
    at = torch.tensor(indices, dtype=torch.float64)[:, None]
    inputs = torch.sin(at * torch.arange(1, FEATURES + 1, dtype=torch.float64) * 0.7)
    return inputs, inputs.prod(1) * 10 + inputs.sum(1) / FEATURES


def train(options: argparse.Namespace) -> None:
    saved = from_rank_0(options.checkpoint)
    training = Training(options, saved)
    source = (FromQueue if options.by == "queue" else FromSampler)(
        options, saved["data"] if saved else None
    )
    print_once(f"world size {dist.get_world_size()}, {training.step} steps done before")
    while True:
        batch = source.batch()
        total, over = summed(len(batch), source.over)
        if not total:
            if over == dist.get_world_size():
                break
            continue  # the last shards of the epoch have just been finished
        part = training.advance(batch, int(total))
        source.trained(len(batch))
        if options.history:
            training.history.append(all_samples(batch))
        if training.step % options.log_every == 0:
            print_once(f"step {training.step:5}  loss {summed(part.item())[0]:.5f}")
        if training.step % options.checkpoint_every == 0:
            save(options.checkpoint, training, source)
    save(options.checkpoint, training, source)
    print_once(f"all done in {training.step} steps")


def summed(*values: float) -> list[float]:
    """Return the sums over all ranks."""
    numbers = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(numbers)
    sums: list[float] = numbers.tolist()
    return sums


def all_samples(batch: Samples) -> Samples:
    """Return the samples that all ranks together used in this step."""
    boxes: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(boxes, batch)
    return [sample for box in boxes for sample in box]


def print_once(line: str) -> None:
    if dist.get_rank() == 0:
        print(line, flush=True)


def from_rank_0(file: Path | None) -> Any:
    """Return rank 0's checkpoint on every rank."""
    load = dist.get_rank() == 0 and file and file.exists()
    box = [torch.load(file, "cpu", weights_only=True) if file and load else None]
    dist.broadcast_object_list(box)
    return box[0]


def save(file: Path | None, training: Training, source: FromQueue | FromSampler) -> None:
    """Save the model and the data position of this step in one file, replaced atomically."""
    if file is None:
        return
    dist.barrier()  # by now, every rank has reported the samples that it used
    if dist.get_rank() == 0:
        part = file.with_name(file.name + ".part")
        with part.open("wb") as stream:
            torch.save({**training.checkpoint(), "data": source.state_dict()}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    # No rank gets ahead of the saved position: the next step waits for rank 0.


if __name__ == "__main__":
    main()
