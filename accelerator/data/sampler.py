"""Which samples each rank trains on, exact to the sample when the number of ranks changes."""

from __future__ import annotations

import os

from .permutation import Permutation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Literal

    Last = Literal["borrow", "drop", "pad"]

_TOO_FEW = {
    "borrow": "a step would be more than an epoch; last='pad' repeats samples",
    "drop": "last='drop' leaves nothing",
}
"""What is wrong with fewer samples than a step of all ranks, by `last`."""


class ElasticSampler:
    """The samples of one rank, for the `sampler` of torch's DataLoader.

    All ranks draw from one order of the data set, which seed and epoch alone decide. A position in
    that order, the samples that all ranks together have trained on, is the whole state: it means
    the same to any number of ranks. The training loop moves it on with `trained`, since a
    DataLoader asks for samples long before they are trained on.

    Every rank gets equally many samples, for with DistributedDataParallel a rank with one batch
    more than the others waits for them for ever. `last` says what becomes of an epoch that does
    not divide:

    | last | the last samples of an epoch | the next epoch |
    |---|---|---|
    | `borrow` | are filled up with the first ones of the next | goes on behind them |
    | `drop` | too few for all ranks: left out | starts at its beginning |
    | `pad` | are filled up with the epoch's own first ones | starts at its beginning |

    Only `borrow` keeps each sample once an epoch. Its epochs differ by a step at times.

    Attributes:
        epoch: the epoch it is in, from 0.
        position: how many samples of that epoch all ranks together have trained on.
    """

    def __init__(
        self,
        size: int,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        batch: int = 1,
        last: Last = "borrow",
    ) -> None:
        """Start at the beginning of epoch 0.

        Args:
            size: how many samples the data set has.
            rank: this rank among those that share the data set; RANK, or 0, if not given.
            world_size: how many they are; WORLD_SIZE, or 1, if not given.
            shuffle: whether each epoch has an order of its own, or all have that of the data set.
            seed: what decides the orders; equal on all ranks.
            batch: an epoch is so many samples for each rank, or a multiple. With the DataLoader's
                batch_size no batch is ever short.
            last: what becomes of the samples that are left over.

        Raises:
            ValueError: there is no such rank, or fewer samples than a step of all ranks needs.
        """
        self.size = size
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self.world_size = (
            int(os.environ.get("WORLD_SIZE", "1")) if world_size is None else world_size
        )
        self.shuffle = shuffle
        self.seed = seed
        self.batch = batch
        self.last = last
        self.epoch = 0
        self.position = 0
        self._check()

    def __len__(self) -> int:
        """Return how many samples of this epoch are left for each rank."""
        rest, step = self.size - self.position, self.world_size * self.batch
        steps = rest // step if self.last == "drop" else -(-rest // step)
        return steps * self.batch

    def __iter__(self) -> Iterator[int]:
        """Return what is left of this epoch for this rank, as things stand now."""
        end = self.position + len(self) * self.world_size
        return self._indices(self.epoch, range(self.position + self.rank, end, self.world_size))

    def trained(self, samples: int) -> None:
        """Move on by so many samples of each rank; the last of an epoch lead to the next one.

        It is for all ranks to call alike, when their optimizers have made the step, and before the
        state is saved.

        Raises:
            ValueError: the epoch has not so many left for each rank.
        """
        if not 0 <= samples <= len(self):
            left = f"epoch {self.epoch} has {len(self)} left for each rank"
            raise ValueError(f"trained on {samples} samples of one rank: {left}")
        self.position += samples * self.world_size
        self._turn()

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch; stay where we are if we are in it."""
        if epoch != self.epoch:
            self.epoch, self.position = epoch, 0

    def state_dict(self) -> dict[str, int]:
        """Return where we are, the same on every rank, in plain numbers."""
        return {**self._order_of(), "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where any number of ranks have been; before the DataLoader is iterated.

        Raises:
            ValueError: that was in another order, where this position would mean other samples.
        """
        for name, ours in self._order_of().items():
            if state[name] != ours:
                raise ValueError(f"the saved position is for {name} {state[name]}, not {ours}")
        self.epoch, self.position = state["epoch"], state["position"]
        self._turn()

    def _order_of(self) -> dict[str, int]:
        return {"size": self.size, "shuffle": self.shuffle, "seed": self.seed}

    def _turn(self) -> None:
        """Go on to the next epoch if nothing is left of this one."""
        if len(self):
            return
        if self.last == "borrow":
            turns, self.position = divmod(self.position, self.size)
            self.epoch += turns
        else:
            self.set_epoch(self.epoch + 1)

    def _indices(self, epoch: int, places: range) -> Iterator[int]:
        """Yield the samples at places of an epoch, which may lie beyond its end."""
        order, turn = self._order(epoch), 0
        for place in places:
            if place // self.size != turn:
                turn = place // self.size
                order = self._order(epoch + turn if self.last == "borrow" else epoch)
            yield order[place - turn * self.size]

    def _order(self, epoch: int) -> range | Permutation:
        return Permutation(self.size, f"{self.seed} {epoch}") if self.shuffle else range(self.size)

    def _check(self) -> None:
        if self.size < 1 or self.batch < 1:
            raise ValueError(f"{self.size} samples in batches of {self.batch}: nothing to train on")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank {self.rank} of {self.world_size}: they count from 0")
        if self.last not in {"borrow", "drop", "pad"}:
            raise ValueError(f"last={self.last!r}: it is 'borrow', 'drop' or 'pad'")
        if self.size < self.world_size * self.batch and self.last in _TOO_FEW:
            need = f"{self.world_size} ranks with {self.batch} each"
            raise ValueError(f"{self.size} samples, and {need}: {_TOO_FEW[self.last]}")
