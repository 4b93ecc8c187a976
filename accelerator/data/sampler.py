"""The samples for each rank, exact to the sample when the number of ranks changes."""

from __future__ import annotations

import os

from .permutation import Permutation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Literal

    Last = Literal["borrow", "drop", "pad"]

_TOO_FEW = {
    "borrow": "one step would exceed an epoch; use last='pad' to repeat samples",
    "drop": "last='drop' would leave no samples",
}
"""The error for fewer samples than a step of all ranks, by `last`."""


class ElasticSampler:
    """The samples of one rank, for the `sampler` of torch's DataLoader.

    All ranks use one order of the data set, which only the seed and the epoch determine. The whole
    state is a position in that order: the number of samples that all ranks together have trained
    on, whatever the number of ranks. The training loop advances it with `trained`, since a
    DataLoader fetches samples long before they are trained on.

    Every rank gets as many samples as any other: with DistributedDataParallel, a rank with one
    batch more than the others waits for them forever. `last` determines what happens if the samples
    of an epoch do not divide evenly:

    | last | the last samples of an epoch | the next epoch |
    |---|---|---|
    | `borrow` | are filled up with the first samples of the next epoch | continues after these |
    | `drop` | are left out if there are too few for all ranks | starts at its beginning |
    | `pad` | are filled up with the first samples of this epoch | starts at its beginning |

    Only `borrow` uses each sample once per epoch. The length of its epochs may differ by one step.

    Attributes:
        epoch: the current epoch, from 0.
        position: the number of samples of that epoch that all ranks together have trained on.
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
            size: the number of samples of the data set.
            rank: this rank among those that share the data set; RANK, or 0, if not given.
            world_size: the number of these ranks; WORLD_SIZE, or 1, if not given.
            shuffle: whether each epoch has a random order; if not, the data set's order is used.
            seed: determines the random orders; must be equal on all ranks.
            batch: each rank's samples in an epoch are a multiple of this. If it is the DataLoader's
                batch_size, no batch is short.
            last: the treatment of the samples that are left over.

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
        """Return the number of samples of this epoch that are left for each rank."""
        rest, step = self.size - self.position, self.world_size * self.batch
        steps = rest // step if self.last == "drop" else -(-rest // step)
        return steps * self.batch

    def __iter__(self) -> Iterator[int]:
        """Return the samples of this epoch that are left for this rank, as of now."""
        end = self.position + len(self) * self.world_size
        return self._indices(self.epoch, range(self.position + self.rank, end, self.world_size))

    def trained(self, samples: int) -> None:
        """Advance by this many samples of each rank; after the last ones the next epoch begins.

        All ranks must pass an equal number, after the optimizer's step and before the state
        is saved.

        Raises:
            ValueError: the epoch has fewer samples left for each rank.
        """
        if not 0 <= samples <= len(self):
            left = f"epoch {self.epoch} has only {len(self)} samples left for each rank"
            raise ValueError(f"trained({samples}): {left}")
        self.position += samples * self.world_size
        self._turn()

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch; do nothing if it is the current one."""
        if epoch != self.epoch:
            self.epoch, self.position = epoch, 0

    def state_dict(self) -> dict[str, int]:
        """Return the position as plain numbers, equal on every rank."""
        return {**self._order_of(), "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a position that any number of ranks have saved.

        Call it before iterating over the DataLoader.

        Raises:
            ValueError: the state was saved for another order, in which it means other samples.
        """
        for name, ours in self._order_of().items():
            if state[name] != ours:
                raise ValueError(f"the saved position is for {name} {state[name]}, not {ours}")
        self.epoch, self.position = state["epoch"], state["position"]
        self._turn()

    def _order_of(self) -> dict[str, int]:
        return {"size": self.size, "shuffle": self.shuffle, "seed": self.seed}

    def _turn(self) -> None:
        """Begin the next epoch if nothing is left of this one."""
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
            raise ValueError(f"size={self.size}, batch={self.batch}: both must be at least 1")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(
                f"rank={self.rank}: expected 0 to world_size - 1 ({self.world_size - 1})"
            )
        if self.last not in {"borrow", "drop", "pad"}:
            raise ValueError(f"last={self.last!r}: expected 'borrow', 'drop' or 'pad'")
        if self.size < self.world_size * self.batch and self.last in _TOO_FEW:
            need = f"{self.world_size} ranks with {self.batch} each"
            raise ValueError(f"{self.size} samples are too few for {need}: {_TOO_FEW[self.last]}")
