"""One queue of shards: the free, the taken and the done ones. Pure."""

from __future__ import annotations

from heapq import heappop, heappush

from .permutation import Permutation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping
    from typing import Any

    Place = tuple[int, int]

MOST_SHARDS = 10**9
"""The most shards of a shuffled epoch; the tables of the order then take some MB."""

MOST_HELD = 1024
"""Maximum shards that a holder has taken and not done; this limits the length of a position."""

_HUGE = 1 << 62


class ShardTable:
    """One queue of shards, which any number of holders take and do.

    A shard is identified by its epoch and its number, which is its place in the order of the epoch.
    Numbers are given out in order. All shards below the next number are therefore done, except for
    the few that are taken or were given back: neither memory nor a position grows with the data.

    An epoch begins when all shards of the one before it are done.

    Attributes:
        spec: the arguments, as plain values; equal for all holders.
        epoch: the current epoch, from 0.
    """

    def __init__(
        self,
        *,
        size: int | None,
        shard: int,
        seed: int = 0,
        epochs: int = 1,
        shuffle: bool = True,
        growing: bool = False,
    ) -> None:
        """Start at the beginning of epoch 0; see ShardQueue for the arguments.

        Raises:
            ValueError: the arguments are invalid.
        """
        self.spec = {
            "size": size,
            "shard": shard,
            "seed": seed,
            "epochs": epochs,
            "shuffle": shuffle,
            "growing": growing,
        }
        _check(self.spec)
        self._size = 0 if growing else size
        self._shard, self._seed, self._epochs = shard, seed, epochs
        self._shuffle = shuffle and size is not None
        self._growing, self._last = growing, size is not None
        self._back: list[Place] = []
        self._begun: dict[int, int] = {}
        self._order: Permutation | None = None
        self._held: dict[Hashable, set[int]] = {}
        self._loaded: object = None
        self._touched = False
        self._go_to(0)

    @property
    def over(self) -> bool:
        """True if all epochs are done."""
        return self.epoch >= self._epochs

    @property
    def holders(self) -> tuple[Any, ...]:
        """All holders that have taken a shard."""
        return tuple(self._held)

    def ask(self, holder: Hashable, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Answer a holder's request, both as plain values; None: the holder has to wait.

        Raises:
            ValueError: the request cannot be carried out; the text says why.
            KeyError: there is no such request.
        """
        return _REQUESTS[request["ask"]](self, holder, request)

    # -- shards ---------------------------------------------------------------------------------

    def take(self, holder: Hashable) -> tuple[int, int, int, int] | None:
        """Give out a shard as (epoch, number, first sample, one past the last); None: none is left.

        Shards that were given back go first. A shard begins after its samples that are done.

        Raises:
            ValueError: the holder has too many shards that are not done.
        """
        held = self._held.setdefault(holder, set())
        if len(held) >= MOST_HELD:
            raise ValueError(
                f"{MOST_HELD} shards are taken but not done: call done(), or take fewer"
            )
        number = self._pop()
        if number is None:
            return None
        self._touched = True
        held.add(number)
        start, stop = self._samples(number)
        return self.epoch, number, start + self._begun.get(number, 0), stop

    def done(self, holder: Hashable, epoch: int, number: int, upto: int) -> None:
        """Record that the samples of a shard below `upto` are done; after the last, the shard is.

        Raises:
            ValueError: the holder does not have the shard, or it has no such samples.
        """
        self._must_hold(holder, epoch, number)
        start, stop = self._samples(number)
        begun = self._begun.get(number, 0)
        if not start + begun <= upto <= stop:
            raise ValueError(f"{_name(epoch, number)} has no samples {start + begun} to {upto}")
        if upto < stop:
            if upto > start:
                self._begun[number] = upto - start
            return
        self._begun.pop(number, None)
        self._held[holder].remove(number)
        self._turn()

    def give_back(self, holder: Hashable, epoch: int, number: int) -> None:
        """Put a shard back to the front; ignore one that the holder no longer has."""
        if epoch == self.epoch and number in self._held.get(holder, ()):
            self._held[holder].remove(number)
            heappush(self._back, (number, number + 1))

    def release(self, holder: Hashable) -> None:
        """Put back all shards that a holder, which is gone, has taken and not done."""
        for number in self._held.pop(holder, ()):
            heappush(self._back, (number, number + 1))

    def new_round(self) -> None:
        """Put back all shards that are taken; a position may be loaded again."""
        for holder in tuple(self._held):
            self.release(holder)
        self._loaded, self._touched = None, False

    def grow(self, size: int, last: bool) -> None:
        """Set the present number of samples of a growing stream, and whether it is final.

        Raises:
            ValueError: the stream does not grow, has already ended, or already has more samples.
        """
        _whole(size, "size", 0)
        if not self._growing:
            raise ValueError("the queue does not grow: open it with growing=True")
        known = self._size or 0
        if self._last and (size > known or (last and size != known)):
            raise ValueError(f"the stream ended at {known} samples, not {size}")
        if last and size < known:
            raise ValueError(f"the stream cannot end at {size} samples: it has {known} already")
        self._size, self._last = max(known, size), self._last or last
        self._turn()

    # -- the position ---------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the finished parts, as plain values: ranges of numbers, and partly done shards."""
        done, at = [], 0
        for first, beyond in self._open():
            if first > at:
                done.append([at, first])
            at = beyond
        if self._next > at:
            done.append([at, self._next])
        begun = [[number, self._begun[number]] for number in sorted(self._begun)]
        return {**self._kind(), "epoch": self.epoch, "done": done, "begun": begun}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go to a position; {} is the beginning. The first one of a round is for all holders.

        Raises:
            ValueError: it is of another queue or damaged, another position was loaded before, or
                shards were taken before any was loaded.
        """
        if self._loaded is not None:
            if self._loaded != state:
                raise ValueError("another position has been loaded since the workers started")
            return
        if self._touched:
            raise ValueError("shards were already taken: load the position first, on every rank")
        epoch, done, begun = self._checked(state)
        self._go_to(epoch)
        at = 0
        for first, beyond in done:
            if first > at:
                heappush(self._back, (at, first))
            at = beyond
        self._begun = begun
        self._next = max([at, *(number + 1 for number in begun)])
        if self._next > at:
            heappush(self._back, (at, self._next))
        self._loaded = state
        self._turn()

    def _kind(self) -> dict[str, Any]:
        """Return the values that must be equal for a position to mean equal samples."""
        ordered = ("seed", "shuffle") if self.spec["size"] is not None else ()
        names = ("size", "shard", *ordered)
        kind = {name: self.spec[name] for name in names}
        return {**kind, "stream": [self._size, self._last]} if self._growing else kind

    def _checked(self, state: Mapping[str, Any]) -> tuple[int, list[Place], dict[int, int]]:
        """Return the epoch, the ranges that are done, and the shards that are partly done."""
        if not state:
            return 0, [], {}
        for name, ours in self._kind().items():
            if name != "stream" and state.get(name) != ours:
                raise ValueError(f"the position is for {name} {state.get(name)}, not {ours}")
        try:
            if state.keys() != {*self._kind(), "epoch", "done", "begun"}:
                raise ValueError(f"its fields are {sorted(state)}")
            if self._growing:
                size, last = state["stream"]
                self.grow(max(size, self._size or 0), bool(last) and not self._last)
            epoch = _whole(state["epoch"], "epoch", 0)
            done, begun = _pairs(state["done"]), dict(_pairs(state["begun"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a position of a queue: {error}") from None
        self._check_ranges(done, begun)
        return epoch, done, begun

    def _check_ranges(self, done: list[Place], begun: Mapping[int, int]) -> None:
        at, count = 0, self._count()
        for first, beyond in done:
            if not at <= first < beyond <= count:
                raise ValueError(f"not a position of a queue: shards {first} to {beyond} done")
            at = beyond
        for number, samples in begun.items():
            if not (0 <= number < count and 0 < samples < self._shard):
                raise ValueError(
                    f"not a position of a queue: {samples} samples of shard {number} done"
                )
        if any(first <= number < beyond for number in begun for first, beyond in done):
            raise ValueError("not a position of a queue: a shard is both done and partly done")

    # -- the order ------------------------------------------------------------------------------

    def _go_to(self, epoch: int) -> None:
        self.epoch = epoch
        self._next = 0
        self._back, self._begun, self._order = [], {}, None

    def _count(self) -> int:
        """Return the number of shards of the epoch that exist so far."""
        if self._size is None:
            return _HUGE
        return -(-self._size // self._shard) if self._last else self._size // self._shard

    def _pop(self) -> int | None:
        """Take the next number off the front, if any."""
        if self._back:
            first, beyond = heappop(self._back)
            if first + 1 < beyond:
                heappush(self._back, (first + 1, beyond))
            return first
        if self.over or self._next >= self._count():
            return None
        self._next += 1
        return self._next - 1

    def _samples(self, number: int) -> Place:
        """Return the samples of a shard: the first, and one past the last."""
        place = number
        if self._shuffle:
            if self._order is None:
                self._order = Permutation(self._count(), f"{self._seed} {self.epoch}")
            place = self._order[number]
        start = place * self._shard
        stop = start + self._shard
        return start, stop if self._size is None else min(stop, self._size)

    def _open(self) -> Iterator[Place]:
        """Yield the numbers below the next one that are not done, as ranges in order."""
        taken = [(number, number + 1) for held in self._held.values() for number in held]
        yield from sorted([*taken, *self._back])

    def _turn(self) -> None:
        """Begin the next epoch if all of this one is done."""
        whole = self._last and self._next >= self._count()
        if whole and not self._back and not any(self._held.values()) and not self.over:
            self._go_to(self.epoch + 1)

    def _must_hold(self, holder: Hashable, epoch: int, number: int) -> None:
        if epoch != self.epoch or number not in self._held.get(holder, ()):
            why = "it is done or was given back"
            raise ValueError(f"{_name(epoch, number)} is no longer this worker's: {why}")

    # -- requests -------------------------------------------------------------------------------

    def _ask_take(self, holder: Hashable, request: Mapping[str, Any]) -> dict[str, Any] | None:
        if self.over:
            return {"over": True}
        shard = self.take(holder)
        return {"shard": shard} if shard or not request.get("wait") else None

    def _ask_done(self, holder: Hashable, request: Mapping[str, Any]) -> dict[str, Any]:
        names = ("epoch", "number", "upto")
        self.done(holder, *(_whole(request.get(name), name, 0) for name in names))
        return {}

    def _ask_back(self, holder: Hashable, request: Mapping[str, Any]) -> dict[str, Any]:
        for epoch, number in _pairs(request.get("shards")):
            self.give_back(holder, epoch, number)
        return {}

    def _ask_grow(self, _holder: Hashable, request: Mapping[str, Any]) -> dict[str, Any]:
        self.grow(_whole(request.get("size"), "size", 0), bool(request.get("last")))
        return {}

    def _ask_state(self, _holder: Hashable, _request: Mapping[str, Any]) -> dict[str, Any]:
        return {"state": self.state()}

    def _ask_load(self, _holder: Hashable, request: Mapping[str, Any]) -> dict[str, Any]:
        state = request.get("state")
        if not isinstance(state, dict):
            raise ValueError("not a position of a queue: expected a dictionary")
        self.load(state)
        return {}


_REQUESTS: dict[str, Callable[[ShardTable, Hashable, Mapping[str, Any]], dict[str, Any] | None]] = {
    "take": ShardTable._ask_take,
    "done": ShardTable._ask_done,
    "back": ShardTable._ask_back,
    "grow": ShardTable._ask_grow,
    "state": ShardTable._ask_state,
    "load": ShardTable._ask_load,
}


def _name(epoch: int, number: int) -> str:
    return f"shard {number} of epoch {epoch}"


def _pairs(value: Any) -> list[Place]:
    try:
        return [(_whole(one, "number", 0), _whole(other, "number", 0)) for one, other in value]
    except TypeError:
        raise ValueError("not a list of pairs") from None


def _whole(value: Any, name: str, least: int) -> int:
    if type(value) is not int or not least <= value < _HUGE:
        raise ValueError(f"{name}: expected an integer from {least} to {_HUGE - 1}, not {value!r}")
    return value


def _check(spec: Mapping[str, Any]) -> None:
    size, shard, endless = spec["size"], spec["shard"], spec["size"] is None
    _whole(shard, "shard", 1)
    _whole(spec["epochs"], "epochs", 1)
    _whole(spec["seed"], "seed", -_HUGE)
    if any(type(spec[name]) is not bool for name in ("shuffle", "growing")):
        raise ValueError("shuffle and growing must be True or False")
    if endless and spec["epochs"] != 1:
        raise ValueError(f"epochs={spec['epochs']}: a stream (size=None) has one epoch")
    if not endless and spec["growing"]:
        raise ValueError(f"conflicting arguments: size={size} and growing=True; give one of them")
    if not endless and -(-_whole(size, "size", 1) // shard) > MOST_SHARDS:
        raise ValueError(f"more than {MOST_SHARDS} shards: use a larger shard")
