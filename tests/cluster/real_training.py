"""Training with the real torch, in which one rank hangs in some ways or only looks so.

The scripts of `hanging.py` have functions with the names of torch's, which start at once. Here are
DDP over gloo, DataLoader workers and what they bring: threads, sockets, processes. torch is
imported once on the host (`--preload`), and one job shows many kinds, one after another.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .reaching import find, script

if TYPE_CHECKING:
    from .command import Dsrun, Running
    from .hosts import Cluster

TIMEOUT = 3
"""Seconds, `--hang_timeout`."""

TRAIN = """
import os, signal, threading, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

HANGS, HEALTHY, WORKERS, SECONDS = {hangs!r}, {healthy!r}, {workers}, {seconds}

class Go(Exception):
    pass

def go(*_):
    raise Go

class Numbers(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        if WORKERS and SLOW and index % 64 == 63:
            time.sleep(0.3)
        return torch.full((8,), index % 7, dtype=torch.float32)

SLOW = "a slow loader" in HEALTHY

def sleeps():
    time.sleep(10000)

def locks():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def stops():
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(10000)

def until(step):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        step()

def save():
    with open(f"checkpoint-{{os.getpid()}}", "wb") as file:
        torch.save(torch.zeros(10_000), file)
        os.fsync(file.fileno())
    time.sleep(0.1)

DOES = {{
    "computes while the others wait": lambda: until(lambda: torch.ones(64, 64).sum()),
    "evaluates": lambda: until(lambda: torch.nn.functional.softmax(torch.rand(256, 256), 0)),
    "writes checkpoints": lambda: until(save),
    "a slow loader": lambda: None,
}}

def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loader = DataLoader(Numbers(), 4, num_workers=WORKERS, persistent_workers=WORKERS > 0)
    todo = [*HANGS, *HEALTHY]
    for batch in loader:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        if rank == 1 and todo and (todo[0] in DOES or os.path.exists(f"begin-{{todo[0]}}")):
            kind = todo.pop(0)
            print("begins:", kind, flush=True)
            try:
                DOES[kind]() if kind in DOES else globals()[kind]()
            except Go:
                pass
            print("over:", kind, flush=True)
        left = torch.tensor([len(todo)])
        dist.broadcast(left, 1)
        if not left:
            break
    print("is done", flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, go)
    print("is up", os.getpid(), flush=True)
    main()
"""

HANGS = {
    "sleeps": "sleeps in sleeps",
    "locks": "waits for a lock or native code in locks",
    "stops": "is stopped by a signal such as SIGSTOP",
}
"""How rank 1 hangs, and what is said of it."""

HEALTHY = ("computes while the others wait", "evaluates", "writes checkpoints")
"""What rank 1 does for longer than `--hang_timeout` while rank 0 waits for it in a collective."""

LOADED = ("evaluates", "a slow loader")
"""What it does with DataLoader workers."""


class Training:
    """A job of two ranks on n1; rank 1 does these things, one after another.

    Attributes:
        running: its dsrun.
    """

    def __init__(
        self,
        dsrun: Dsrun,
        folder: Path,
        hangs: tuple[str, ...] = (),
        healthy: tuple[str, ...] = (),
        workers: int = 0,
    ) -> None:
        given = {"hangs": hangs, "healthy": healthy, "workers": workers}
        text = TRAIN.format(**given, seconds=2 * TIMEOUT + 1)
        options = "--host", "n1:2", "--preload", "torch", "--hang_timeout", f"{TIMEOUT}"
        cache = "--export", f"TORCHINDUCTOR_CACHE_DIR={folder}"  # else torch leaves one in /tmp
        self._folder = folder
        self.running: Running = dsrun.start(*options, *cache, script(folder, text))

    def said(self, rank: int, pattern: str) -> re.Match[str]:
        """Wait for a line of a rank."""
        return self.running.wait_for_output(rf"(?m)^n1:{rank}\| {pattern}")

    def named(self, kind: str) -> None:
        """Let rank 1 hang in this way, and wait until it is named."""
        (self._folder / f"begin-{kind}").touch()
        self.said(1, f"begins: {kind}")
        others = r"dsrun: no progress for [0-9]+ s: rank 0 waits in .*"
        self.running.wait_for_output(rf"{others}; rank 1 \(n1\).* (?:{HANGS[kind]})")

    def release(self, cluster: Cluster, kind: str) -> None:
        """Let it go on."""
        pid = find(cluster, "n1", lambda one: self._is_rank_1(one.pid))
        os.kill(pid, signal.SIGUSR1)
        os.kill(pid, signal.SIGCONT)
        self.said(1, f"over: {kind}")

    def goes_on(self, times: int) -> None:
        """Wait until dsrun has said so often that rank 1 goes on."""
        line = "dsrun: rank 1 goes on after"
        self.running.wait_for_output(rf"(?s)(?:{line}.*?){{{times}}}")

    def _is_rank_1(self, pid: int) -> bool:
        with suppress(OSError):  # another process of the host, which has ended
            return self._own_pid(pid) == self.said(1, r"is up (\d+)")[1]
        return False

    @staticmethod
    def _own_pid(pid: int) -> str:
        """Return the number that a process has on its host."""
        status = Path(f"/proc/{pid}/status").read_text()
        own = re.search(r"NSpid:.*\s(\d+)\n", status)
        return own[1] if own else ""

    def alarms(self) -> list[str]:
        """What dsrun has said of hangs."""
        return re.findall("(?m)^dsrun: .*no progress.*", self.running.stderr)
