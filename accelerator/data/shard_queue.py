"""Shards of a data set for whoever is ready for one: training code's side of dsrun's queues."""

from __future__ import annotations

import json
import os
import socket
import threading

from . import QUEUE_FD
from .shard_table import ShardTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any


class Shard:
    """Samples that one worker has taken: iterate over it, or use `start` and `stop`.

    Attributes:
        epoch: the epoch it is of.
        number: its place in the order of that epoch, from 0.
        start: its first sample; behind what others have done of it before.
        stop: beyond its last sample.
    """

    def __init__(self, epoch: int, number: int, start: int, stop: int) -> None:
        self.epoch, self.number = epoch, number
        self.start, self.stop = start, stop

    def __iter__(self) -> Iterator[int]:
        """Yield its samples, in the order of the data set."""
        return iter(range(self.start, self.stop))

    def __len__(self) -> int:
        """Return how many samples it has."""
        return self.stop - self.start

    def __repr__(self) -> str:
        return f"Shard(epoch={self.epoch}, number={self.number}, {self.start}:{self.stop})"


class ShardQueue:
    """A queue of shards that all workers of a job share; dsrun keeps it (`--shard_queue`).

    Without dsrun, and with one process alone, it works within the process.

        with ShardQueue("train", size=1_000_000, shard=512, seed=1, epochs=3) as queue:
            for shard in queue:
                for index in shard:
                    ...
                queue.done(shard)

    A shard is the worker's that has taken it until any process of that worker says that it is done.
    What a worker has not done when it ends, or when its node is lost, goes to others. An object
    serves one request at a time, of any thread; a forked process gets a line of its own.

    Attributes:
        over: whether it was told that all epochs are done.
    """

    def __init__(
        self,
        name: str,
        *,
        size: int | None = None,
        shard: int,
        seed: int = 0,
        epochs: int = 1,
        shuffle: bool = True,
        growing: bool = False,
    ) -> None:
        """Name a queue; all who do say the same of it.

        Args:
            name: which of the job's queues.
            size: samples of the data set; None for a stream, whose shards are numbered on.
            shard: samples of a shard; the last one of a data set may be short.
            seed: with the epoch it decides the order of the shards.
            epochs: how often all shards are given out; each time when all are done.
            shuffle: whether their order is random; that of a stream never is.
            growing: a stream that has only what `grow` says.

        Raises:
            ValueError: they cannot be meant, or others have said otherwise.
            RuntimeError: there are many workers here, and no dsrun that keeps the queue.
        """
        table = ShardTable(
            size=size, shard=shard, seed=seed, epochs=epochs, shuffle=shuffle, growing=growing
        )
        self.over = False
        self._name = name
        self._line = _QueueLine() if QUEUE_FD in os.environ else _Alone(table)
        self._ask("open", spec=table.spec)

    def __enter__(self) -> ShardQueue:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def __iter__(self) -> Iterator[Shard]:
        """Take shards until all epochs are done."""
        while (shard := self.take()) is not None:
            yield shard

    def take(self, *, wait: bool = True) -> Shard | None:
        """Take a shard; None when all epochs are done, which `over` tells then.

        While others have all that is left, wait: it may come back. Without `wait`, None is also
        the answer when there is nothing just now.

        Raises:
            ValueError: this worker has 1024 already that are not done.
            RuntimeError: a process alone would wait for itself.
            ConnectionError: dsrun is gone, or has ended this round.
        """
        found = self._ask("take", wait=wait)
        self.over = bool(found.get("over"))
        if not found.get("shard"):
            return None
        shard = Shard(*found["shard"])
        self._line.taken.add((shard.epoch, shard.number))
        return shard

    def done(self, shard: Shard, samples: int | None = None) -> None:
        """Say that a shard is done, or so many of its samples, counted from its `start`.

        A shard that is done in part goes on behind that part if somebody else has to.

        Raises:
            ValueError: it is no longer this worker's, or has not so many samples.
            ConnectionError: as for `take`.
        """
        count = len(shard) if samples is None else samples
        upto = shard.start + count
        self._ask("done", epoch=shard.epoch, number=shard.number, upto=upto)
        if upto == shard.stop:
            self._line.taken.discard((shard.epoch, shard.number))

    def grow(self, size: int, *, last: bool = False) -> None:
        """Say that a growing stream has so many samples by now; with `last`, and never more.

        Only whole shards are given out, until the last one, which may be short.

        Raises:
            ValueError: the queue does not grow, has ended before that, or goes further already.
        """
        self._ask("grow", size=size, last=last)

    def state_dict(self) -> dict[str, Any]:
        """Return what is done, in plain values and ranges; what is only taken counts for nothing.

        Raises:
            ValueError: it is longer than 1 MiB.
        """
        state: dict[str, Any] = self._ask("state")["state"]
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put the queue to a position, for all; {} is the beginning. Before any shard is taken.

        The first worker to load one in a round does it, and others must load the same.

        Raises:
            ValueError: another one was loaded, shards were taken before, or it is of another queue.
        """
        self._ask("load", state=dict(state))

    def close(self) -> None:
        """Give back what was taken through this object and is not done."""
        try:
            if self._line.mine and self._line.taken:
                self._ask("back", shards=sorted(self._line.taken))
        except ConnectionError:
            pass  # it goes back when this worker has ended
        self._line.close()

    def __reduce__(self) -> Any:
        raise TypeError("a ShardQueue cannot be sent to another process: fork, or make one there")

    def _ask(self, ask: str, **more: Any) -> dict[str, Any]:
        answer = self._line.ask({"queue": self._name, "ask": ask, **more})
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer


class _Alone:
    """A queue within one process, with nobody to share it with.

    Attributes:
        taken: what was taken here, (epoch, number), and not told done.
    """

    def __init__(self, table: ShardTable) -> None:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise RuntimeError("there are many workers here: have dsrun keep it, --shard_queue")
        self.taken: set[tuple[int, int]] = set()
        self._table = table
        self._pid = os.getpid()
        self._lock = threading.Lock()

    @property
    def mine(self) -> bool:
        """Whether it was made in this process."""
        return self._pid == os.getpid()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request."""
        if not self.mine:
            raise RuntimeError("without dsrun a ShardQueue works in one process (num_workers=0)")
        if request["ask"] == "open":
            return {}
        with self._lock:
            answer = self._table.ask("", request)
        if answer is None:
            raise RuntimeError("there is nothing to take, and nobody to wait for: tell done first")
        return answer

    def close(self) -> None:
        """Forget what was taken."""
        self.taken = set()


class _QueueLine:
    """A line to the node launcher, of one process and one object: JSON lines, asked and answered.

    It is handed in at the socket that the worker has inherited, so that a forked process cannot
    get the answers of another.

    Attributes:
        taken: what was taken through it, (epoch, number), and not told done through it.
    """

    def __init__(self) -> None:
        self.taken: set[tuple[int, int]] = set()
        self._stream: socket.socket | None = None
        self._asking = False
        self._begin()

    @property
    def mine(self) -> bool:
        """Whether it was made in this process."""
        return self._pid == os.getpid()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request, once it has come."""
        if not self.mine:
            self._begin()
        with self._lock:
            if self._asking:
                raise RuntimeError("a request is under way: not from a signal handler")
            self._asking = True
            try:
                answer: dict[str, Any] = json.loads(self._exchange(json.dumps(request).encode()))
            except BaseException:
                self.close()  # whatever is still to come would be taken for the next answer
                raise
            finally:
                self._asking = False
        return answer

    def close(self) -> None:
        """End the line, if it is this process's."""
        if self._stream is not None and self.mine:
            self._stream.close()
        self._stream = None
        self.taken = set()

    def _begin(self) -> None:
        self.taken = set()
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._asking = False
        self._rest = b""
        with _inherited() as inherited:
            self._stream, theirs = socket.socketpair()
            with theirs:
                socket.send_fds(inherited, [b"line"], [theirs.fileno()])

    def _exchange(self, request: bytes) -> bytes:
        if self._stream is None:
            raise ConnectionError("this line to dsrun is closed")
        self._stream.sendall(request + b"\n")
        while b"\n" not in self._rest:
            data = self._stream.recv(65536)
            if not data:
                raise ConnectionError("dsrun has closed the line: this round is over, or the job")
            self._rest += data
        answer, _, self._rest = self._rest.partition(b"\n")
        return answer


def _inherited() -> socket.socket:
    """Return the socket at which lines are handed in; a number alone could be any file by now."""
    number, _, inode = os.environ[QUEUE_FD].partition(":")
    try:
        if os.fstat(int(number)).st_ino == int(inode):
            return socket.socket(fileno=os.dup(int(number)))
    except (OSError, ValueError):
        pass
    raise RuntimeError(
        f"{QUEUE_FD} is set, but this process has not inherited its socket: fork it from a worker"
        " (multiprocessing's start method 'fork'), or close_fds=False"
    )
