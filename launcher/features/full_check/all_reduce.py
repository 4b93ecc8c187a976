"""Times all-reduces of all nodes and of pairs of them with torch, and checks their results.

The workers' Python runs this file, so it imports nothing of dsrun. Its argument is a JSON object:
how many `gpus` take part (with NCCL; 0 for gloo on CPUs), and the `interfaces` of this node by
address. It writes the fields of a `measurements.ReadyForCollectives` as a line of JSON, reads a
`JoinGroup` and then any number of `Pairs`, a line each, and answers each with lines: a `Reduced`
for each all-reduce, then `failed`, the reason for missing ones or "". After a failure it ends.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeAlias

    Fields: TypeAlias = dict[str, Any]

TIMEOUT = timedelta(seconds=20)
"""The time for the others to arrive, and for each collective."""

CONNECT = timedelta(seconds=3)
"""The time for the store to answer on one of its addresses."""

SMALL, MIDDLE = 1 << 8, 1 << 14
"""Elements of a small all-reduce, and of one that determines the size of the large one."""

LARGE = {"gloo": 1 << 20, "nccl": 1 << 25}
"""The most elements of a large one."""

TIMES = 20
SECONDS = 0.3
"""The approximate seconds for which all-reduces are repeated."""


def say(**fields: object) -> None:
    """Write a line in one piece, so that processes cannot tear each other's."""
    os.write(1, json.dumps(fields).encode() + b"\n")


def main() -> int:
    """Take part until the standard input ends; return the exit code."""
    given = json.loads(sys.argv[1])
    try:
        import torch
        from torch import distributed
    except ImportError as error:
        say(missing=f"torch cannot be imported: {error}")
        return 0
    dist: Any = distributed
    gpus = given["gpus"] if dist.is_nccl_available() else 0
    ranks = max(1, gpus)
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    own = {"ranks": ranks, "port": store.port, "addresses": [*given["interfaces"]]}
    say(missing="", torch=torch.__version__, backend="nccl" if gpus else "gloo", **own)
    local, orders = _forked(ranks)
    process = _ReducingProcess(torch, dist, local, given["interfaces"], gpu=gpus > 0)
    try:
        process.serve(orders)
    except Exception as error:
        say(failed=(str(error) or type(error).__name__).splitlines()[0])
    os._exit(0)  # as other nodes may hang, and so might the end of torch


def _forked(ranks: int) -> tuple[int, Iterator[Fields]]:
    """Fork a process for each further rank of this node; return the local rank and its orders."""
    pipes = []
    for local in range(1, ranks):
        read, write = os.pipe()
        if os.fork() == 0:
            return local, map(json.loads, os.fdopen(read))
        os.close(read)
        pipes.append(write)
    return 0, _passed_on(pipes)


def _passed_on(pipes: Sequence[int]) -> Iterator[Fields]:
    for line in sys.stdin:
        for pipe in pipes:
            os.write(pipe, line.encode())
        yield json.loads(line)


class _ReducingProcess:
    """One process of this node."""

    def __init__(
        self, torch: Any, dist: Any, local: int, interfaces: dict[str, str], *, gpu: bool
    ) -> None:
        self._torch = torch
        self._dist = dist
        self._local = local
        self._interfaces = interfaces
        self._rounds = 0
        self._backend = "nccl" if gpu else "gloo"
        self._device = torch.device("cuda", local) if gpu else torch.device("cpu")

    def serve(self, orders: Iterator[Fields]) -> None:
        """Join the others; then carry out orders, each for one round of pairs."""
        self._join(next(orders))
        self._over()
        for order in orders:
            self._pairs(order["pairs"])
            self._over()

    def _over(self) -> None:
        if self._local == 0:
            say(failed="")

    def _join(self, order: Fields) -> None:
        if self._backend == "nccl":
            self._torch.cuda.set_device(self._device)
        self._torch.set_num_threads(1)
        self._place, self._ranks = order["place"], order["ranks"]
        self._store = self._reach(order["addresses"], order["port"])
        self._reduce([*range(len(self._ranks))])

    def _pairs(self, pairs: Sequence[Sequence[int]]) -> None:
        for number in sorted({pair[0] for pair in pairs}):
            for _, *places in (pair for pair in pairs if pair[0] == number):
                if self._place in places:
                    self._reduce(places)
            self._meet()

    def _meet(self) -> None:
        """Wait until every process of every node has called this."""
        self._rounds += 1
        arrived, go = f"arrived {self._rounds}", f"go {self._rounds}"
        if self._store.add(arrived, 1) == sum(self._ranks):
            self._store.set(go, "")
        self._store.wait([go], TIMEOUT)

    def _reach(self, addresses: Sequence[str], port: int) -> Any:
        """Connect to the store on the first address that answers, and use that network."""
        for address in addresses:
            try:
                store = self._dist.TCPStore(address, port, is_master=False, timeout=CONNECT)
            except RuntimeError:
                continue
            if interface := self._interfaces.get(_own_address(address)):
                for library in ("GLOO", "NCCL"):
                    os.environ.setdefault(f"{library}_SOCKET_IFNAME", interface)
            return store
        raise OSError(f"no answer from {', '.join(addresses)}, port {port}")

    def _reduce(self, places: Sequence[int]) -> None:
        """Form a group of these nodes; check and time all-reduces in it, and report them."""
        ranks = [(one, local) for one in places for local in range(self._ranks[one])]
        # Each group has keys of its own. `new_group` would have to be called for every pair by all.
        name = f"{self._rounds}-{'-'.join(map(str, places))}"
        self._dist.init_process_group(
            self._backend,
            store=self._dist.PrefixStore(name, self._store),
            rank=ranks.index((self._place, self._local)),
            world_size=len(ranks),
            timeout=TIMEOUT,
        )
        measured = self._measured(len(ranks))
        if self._local == 0 or measured["wrong"]:
            say(places=places, **measured)
        self._dist.barrier()
        self._dist.destroy_process_group()

    def _measured(self, ranks: int) -> Fields:
        large = self._torch.zeros(LARGE[self._backend], device=self._device)
        latency = min(self._times(large[:SMALL]))
        each = min(self._times(large[:MIDDLE])) / MIDDLE
        # A slow network gets less to do: a quarter of the time is for one of them.
        large = large[: max(MIDDLE, int(SECONDS / 4 / self._slowest(each)))]
        wrong = self._wrong(large, ranks)
        bandwidth = large.numel() * large.element_size() / min(self._times(large.zero_()))
        return {"latency": latency, "bandwidth": bandwidth, "wrong": wrong}

    def _wrong(self, tensor: Any, ranks: int) -> int:
        """Return the number of wrong elements of a sum; all are integers, exact in float32."""
        pattern = self._torch.arange(tensor.numel(), device=self._device) % 251
        tensor.copy_(pattern * (self._dist.get_rank() % 8 + 1))
        self._dist.all_reduce(tensor)
        return int((tensor != pattern * sum(one % 8 + 1 for one in range(ranks))).sum())

    def _times(self, tensor: Any) -> list[float]:
        times: list[float] = []
        done = self._synchronized()
        while len(times) < TIMES:
            start = time.perf_counter()
            self._dist.all_reduce(tensor)
            done()
            times.append(time.perf_counter() - start)
            if self._slowest(sum(times)) > SECONDS:
                break
        return times

    def _slowest(self, seconds: float) -> float:
        """Return the time of the slowest member, so that all members decide alike."""
        slowest = self._torch.tensor([seconds], device=self._device)
        self._dist.all_reduce(slowest, op=self._dist.ReduceOp.MAX)
        return float(slowest.item())

    def _synchronized(self) -> Callable[[], None]:
        if self._backend == "gloo":
            return lambda: None
        return lambda: self._torch.cuda.synchronize(self._device)


def _own_address(other: str) -> str:
    """Return this machine's address on the route to another machine."""
    import socket

    family = socket.AF_INET6 if ":" in other else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((other, 9))
        return str(probe.getsockname()[0])


if __name__ == "__main__":
    # The modules beside this file must not hide others.
    own = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [one for one in sys.path if os.path.realpath(one) != own]
    sys.exit(main())
