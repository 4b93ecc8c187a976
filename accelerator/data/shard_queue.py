"""Shards of a data set for the workers that are ready for them: dsrun's queues in training code."""

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
        number: its place in the order of that epoch, from 0.
        start: its first sample that no worker has done yet.
        stop: one past its last sample.
    """

    def __init__(self, epoch: int, number: int, start: int, stop: int) -> None:
        self.epoch, self.number = epoch, number
        self.start, self.stop = start, stop

    def __iter__(self) -> Iterator[int]:
        """Yield its samples, in the order of the data set."""
        return iter(range(self.start, self.stop))

    def __len__(self) -> int:
        return self.stop - self.start

    def __repr__(self) -> str:
        return f"Shard(epoch={self.epoch}, number={self.number}, {self.start}:{self.stop})"


class ShardQueue:
    """A queue of shards that all workers of a job share; dsrun keeps it (`--shard_queue`).

    Without dsrun, it works within a single process.

        with ShardQueue("train", size=1_000_000, shard=512, seed=1, epochs=3) as queue:
            for shard in queue:
                for index in shard:
                    ...
                queue.done(shard)

    A shard belongs to the worker that has taken it until any process of that worker marks it done.
    If a worker ends, or its node is lost, the shards that it has not done go to other workers. An
    object serves one request at a time, from any thread. A forked process opens its own connection.

    Attributes:
        over: whether the last `take` has found that all epochs are done.
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
        """Open a queue; every worker that opens it must pass equal arguments.

        Args:
            name: the name of the queue in the job.
            size: samples of the data set; None for a stream, which has no end.
            shard: samples per shard; the last one of a data set may be short.
            seed: determines, with the epoch, the order of the shards.
            epochs: the number of passes over all shards; an epoch starts when the previous one is
                done.
            shuffle: whether the order of the shards is random; a stream is never shuffled.
            growing: whether a stream has only the samples that `grow` has announced.

        Raises:
            ValueError: the arguments are invalid, or differ from another worker's.
            RuntimeError: there are several workers, and dsrun does not keep the queue.
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
        self.close()

    def __iter__(self) -> Iterator[Shard]:
        """Take shards until all epochs are done."""
        while (shard := self.take()) is not None:
            yield shard

    def take(self, *, wait: bool = True) -> Shard | None:
        """Take a shard; return None when all epochs are done, and set `over`.

        While other workers have all remaining shards, wait: one may be given back. Without `wait`,
        return None then as well.

        Raises:
            ValueError: this worker already has 1024 shards that are not done.
            RuntimeError: a single process would wait for itself.
            ConnectionError: dsrun is gone, or has ended this round.
        """
        answer = self._ask("take", wait=wait)
        self.over = bool(answer.get("over"))
        if not answer.get("shard"):
            return None
        shard = Shard(*answer["shard"])
        self._line.taken.add((shard.epoch, shard.number))
        return shard

    def done(self, shard: Shard, samples: int | None = None) -> None:
        """Mark a shard done, or this many of its samples, counted from its `start`.

        If another worker takes a shard that is partly done, it begins after that part.

        Raises:
            ValueError: the shard no longer belongs to this worker, or has fewer samples.
            ConnectionError: see `take`.
        """
        count = len(shard) if samples is None else samples
        upto = shard.start + count
        self._ask("done", epoch=shard.epoch, number=shard.number, upto=upto)
        if upto == shard.stop:
            self._line.taken.discard((shard.epoch, shard.number))

    def grow(self, size: int, *, last: bool = False) -> None:
        """Announce the number of samples of a growing stream; with `last`, the stream ends there.

        Workers get only whole shards, until the last one, which may be short.

        Raises:
            ValueError: the queue does not grow, has already ended, or already has more samples.
        """
        self._ask("grow", size=size, last=last)

    def state_dict(self) -> dict[str, Any]:
        """Return the finished shards, as plain values and ranges; shards only taken do not count.

        Raises:
            ValueError: the position is longer than 1 MiB.
        """
        state: dict[str, Any] = self._ask("state")["state"]
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set the position of the queue for all workers; {} is the beginning.

        Call it before any shard is taken. The first worker to load a position in a round sets it;
        the others must load an equal one.

        Raises:
            ValueError: another position was loaded, shards were taken before, or it is of another
                queue.
        """
        self._ask("load", state=dict(state))

    def close(self) -> None:
        """Give back the shards that were taken through this object and are not done."""
        try:
            if self._line.mine and self._line.taken:
                self._ask("back", shards=sorted(self._line.taken))
        except ConnectionError:
            pass  # they go back when this worker ends
        self._line.close()

    def __reduce__(self) -> Any:
        raise TypeError("a ShardQueue cannot be sent to another process: fork, or open it there")

    def _ask(self, ask: str, **more: Any) -> dict[str, Any]:
        answer = self._line.ask({"queue": self._name, "ask": ask, **more})
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer


class _Alone:
    """A queue within a single process.

    Attributes:
        taken: (epoch, number) of the shards that were taken here and not marked done.
    """

    def __init__(self, table: ShardTable) -> None:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise RuntimeError("a ShardQueue for several workers needs dsrun --shard_queue")
        self.taken: set[tuple[int, int]] = set()
        self._table = table
        self._pid = os.getpid()
        self._lock = threading.Lock()

    @property
    def mine(self) -> bool:
        """True if it was opened in this process."""
        return self._pid == os.getpid()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request."""
        if not self.mine:
            raise RuntimeError("without dsrun, a ShardQueue works in one process (num_workers=0)")
        if request["ask"] == "open":
            return {}
        with self._lock:
            answer = self._table.ask("", request)
        if answer is None:
            raise RuntimeError(
                "no shard is left, and no worker can give one back: call done() first"
            )
        return answer

    def close(self) -> None:
        """Forget which shards were taken."""
        self.taken = set()


class _QueueLine:
    """A connection of one object in one process to the node launcher: JSON requests and answers.

    It is passed through the socket that the worker has inherited, so that a forked process cannot
    get the answers of another.

    Attributes:
        taken: (epoch, number) of the shards that were taken through it and not marked done.
    """

    def __init__(self) -> None:
        self.taken: set[tuple[int, int]] = set()
        self._stream: socket.socket | None = None
        self._asking = False
        self._start()

    @property
    def mine(self) -> bool:
        """True if it was opened in this process."""
        return self._pid == os.getpid()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer."""
        if not self.mine:
            self._start()
        with self._lock:
            if self._asking:
                raise RuntimeError(
                    "a request is under way: do not use the queue in signal handlers"
                )
            self._asking = True
            try:
                answer: dict[str, Any] = json.loads(self._exchange(json.dumps(request).encode()))
            except BaseException:
                self.close()  # an answer that comes late would be taken for the next one
                raise
            finally:
                self._asking = False
        return answer

    def close(self) -> None:
        """Close the connection, if it is this process's."""
        if self._stream is not None and self.mine:
            self._stream.close()
        self._stream = None
        self.taken = set()

    def _start(self) -> None:
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
            raise ConnectionError("the connection to dsrun is closed")
        self._stream.sendall(request + b"\n")
        while b"\n" not in self._rest:
            data = self._stream.recv(65536)
            if not data:
                raise ConnectionError("dsrun closed the connection: the round or the job is over")
            self._rest += data
        answer, _, self._rest = self._rest.partition(b"\n")
        return answer


def _inherited() -> socket.socket:
    """Return the inherited socket; its inode shows that the number is not another file's."""
    number, _, inode = os.environ[QUEUE_FD].partition(":")
    try:
        if os.fstat(int(number)).st_ino == int(inode):
            return socket.socket(fileno=os.dup(int(number)))
    except (OSError, ValueError):
        pass
    raise RuntimeError(
        f"{QUEUE_FD} is set, but this process has not inherited its socket: fork it from a worker"
        " (multiprocessing's start method 'fork'), or start it with close_fds=False"
    )
