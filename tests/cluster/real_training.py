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

from ..support.limits import wait_for
from .reaching import find, script
from .test_jobs import dsrun_job

if TYPE_CHECKING:
    from .command import Dsrun, Running
    from .hosts import Cluster

TIMEOUT, PATIENT = 3, 6
"""Seconds, `--hang_timeout`, of jobs that hang, and of healthy ones: a loader's process may get no
CPU for some seconds beside many others."""

TRAIN = """
import asyncio, concurrent.futures, contextlib, http.server, multiprocessing, os, queue
import signal, socket, threading, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

KINDS, LOADER, SECONDS = {kinds}, {loader!r}, {seconds}

LOADERS = {{
    "none": dict(collate_fn=torch.tensor),
    "lists": dict(collate_fn=list, num_workers=2),
    "tensors": dict(collate_fn=torch.tensor, num_workers=2),
    "pinned": dict(
        collate_fn=torch.tensor, num_workers=2, pin_memory=True, persistent_workers=True
    ),
}}
LOADERS["managed"] = LOADERS["tensors"]
LOADERS["served"] = LOADERS["none"]

class Numbers(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return [index % 7.0] * 8

class Decodes(Numbers):
    def __getitem__(self, index):
        if index == 0:
            until(lambda: torch.rand(64, 64).sort())
        return super().__getitem__(index)

class Hangs(Numbers):
    def __getitem__(self, index):
        if index == 0:
            open("fifo").close()
        return super().__getitem__(index)

class Locks(Numbers):
    def __getitem__(self, index):
        if index == 0:
            print("is locked", os.getpid(), flush=True)
            with contextlib.suppress(Go):
                locks()
        return super().__getitem__(index)

class Waits(Numbers):
    def __getitem__(self, index):
        time.sleep(0.1)
        return super().__getitem__(index)

def batches(data):
    return map(torch.as_tensor, DataLoader(data, 4, **LOADERS[LOADER]))

class Go(Exception):
    pass

def go(*_):
    raise Go

def sleeps():
    time.sleep(10000)

def locks():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def stops():
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(10000)

def loads():
    os.mkfifo("fifo")
    next(batches(Hangs()))

def deadlocks():
    next(batches(Locks()))

def awaits():
    asyncio.run(asyncio.Event().wait())

def loops():
    while True:
        pass

def until(step):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        step()

def computes():
    until(lambda: torch.ones(64, 64).sum())

def evaluates():
    loaded = batches(Numbers())
    with torch.no_grad():
        until(lambda: torch.nn.functional.softmax(next(loaded), 1).argmax())

def decodes():
    next(batches(Decodes()))

def save():
    with open("checkpoint", "wb") as file:
        torch.save(torch.zeros(10_000), file)
        os.fsync(file.fileno())
    time.sleep(0.1)

def saves():
    until(save)

def later(do, *what):
    "Have another thread do something when this has lasted for long."
    threading.Timer(SECONDS, do, what).start()

def listen():
    handler = http.server.BaseHTTPRequestHandler
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

def serves_event():
    listen()
    event = threading.Event()
    later(event.set)
    event.wait()

def serves_queue():
    listen()
    requests = queue.Queue()
    later(requests.put, "a request")
    requests.get()

def serves_future():
    listen()
    future = concurrent.futures.Future()
    later(future.set_result, "a request")
    future.result()

def serves_asyncio():
    async def serve():
        async with await asyncio.start_server(print, "127.0.0.1", 0):
            await asyncio.sleep(SECONDS)
    asyncio.run(serve())

def serves_client():
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        later(client.close)
        server.accept()[0].recv(1)

def receives():
    ours, theirs = pair()
    def feed():
        until(lambda: (time.sleep(0.1), theirs.sendall(bytes(25_000))))
        theirs.close()
    threading.Thread(target=feed).start()
    while ours.recv(1 << 20):
        pass

def pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return socket.create_connection(server.getsockname()), server.accept()[0]

def pipeline():
    "Hand over a little now and then."
    for _ in range(SECONDS * 4):
        if dist.get_rank() == 1:
            time.sleep(0.25)
            dist.send(torch.ones(4), 0)
        else:
            dist.recv(torch.ones(4), 1)

class Training:
    def __init__(self):
        self.model = DistributedDataParallel(torch.nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)

    def run(self, data, goes_on):
        "Make steps until it is over for rank 1."
        for batch in batches(data):
            self.optimizer.zero_grad()
            self.model(batch).square().mean().backward()
            self.optimizer.step()
            more = torch.tensor([dist.get_rank() == 1 and goes_on()])
            dist.broadcast(more, 1)
            if not more:
                break

def do_next(kinds):
    "Do one of these things, as soon as that is wanted, while rank 0 waits."
    if kinds and (kinds[0] not in {hangs} or os.path.exists(f"begin-{{kinds[0]}}")):
        print("begins:", kinds[0], flush=True)
        try:
            globals()[kinds[0]]()
        except Go:
            pass
        print("over:", kinds.pop(0), flush=True)
    return bool(kinds)

if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, go)
    print("is up", os.getpid(), flush=True)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    training = Training()
    if LOADER == "managed":
        manager = multiprocessing.Manager()
        shared = manager.dict(rank=dist.get_rank())
    kinds = [kind for kind in KINDS if kind in globals() and kind != "pipeline"]
    training.run(Numbers(), lambda: do_next(kinds))
    if "waits" in KINDS:
        end = time.monotonic() + SECONDS
        training.run(Waits(), lambda: time.monotonic() < end)
    if "pipeline" in KINDS:
        pipeline()
    print("is done", flush=True)
    dist.destroy_process_group()
"""
"""Rank 1 does what its `KINDS` say.

The samples are made in the rank itself ("none"), or by two workers, which hand over lists, or
tensors in shared memory: torch serves these to the rank in a thread of its own. "managed" has a
manager of `multiprocessing` as well. With "served" rank 1 serves requests, which it broadcasts.
"""

SAID = {
    "sleeps": "sleeps in sleeps",
    "locks": "waits for a lock or native code in locks",
    "stops": "is stopped by a signal such as SIGSTOP",
    "loads": "waits for the data loader in loads",
    "deadlocks": "waits for the data loader in deadlocks.* waits for a lock or native code",
    "awaits": "waits for a queue or a result in awaits",
    "loops": "is in loops .* it may be in an endless loop",
}
"""How rank 1 hangs, and what is said of it."""

HANGS = {
    "none": ("sleeps", "locks", "stops"),
    "lists": ("sleeps", "loads", "loops"),
    "tensors": ("sleeps", "deadlocks", "awaits"),
    "pinned": ("sleeps", "locks", "awaits", "deadlocks"),
    "managed": ("sleeps", "stops", "loops"),
}
"""How it hangs with which loader."""

HEALTHY = {
    "none": ("computes", "saves", "receives", "pipeline"),
    "pinned": ("evaluates", "decodes", "waits"),
    "managed": ("computes", "waits"),
    "served": ("serves_queue", "serves_asyncio", "serves_client", "serves_event", "serves_future"),
    "lists": ("evaluates", "waits"),
    "tensors": ("evaluates", "decodes", "waits"),
}
"""What it does with which loader for longer than `--hang_timeout`.

Rank 0 waits for it all the time in a collective; but in "waits" both make steps all the time, for
which they wait for their loaders.
"""


class Training:
    """A job of two ranks on n1; rank 1 does these things, one after another.

    Attributes:
        running: its dsrun.
    """

    def __init__(
        self,
        dsrun: Dsrun,
        folder: Path,
        loader: str,
        kinds: tuple[str, ...],
        timeout: int = TIMEOUT,
    ) -> None:
        hangs, seconds = tuple(SAID), 2 * timeout + 1
        text = TRAIN.format(kinds=kinds, hangs=hangs, loader=loader, seconds=seconds)
        options = "--host", "n1:2", "--preload", "torch", "--hang_timeout", f"{timeout}"
        cache = "--export", f"TORCHINDUCTOR_CACHE_DIR={folder}"  # else torch leaves one in /tmp
        self._folder = folder
        self.running: Running = dsrun.start(*options, *cache, script(folder, text))

    def said(self, rank: int, pattern: str) -> re.Match[str]:
        """Wait for a line of a rank."""
        return self.running.wait_for_output(rf"(?m)^n1:{rank}\| {pattern}")

    def named(self, cluster: Cluster, kind: str) -> None:
        """Let rank 1 hang in this way, and wait until it is named."""
        (self._folder / f"begin-{kind}").touch()
        self.said(1, f"begins: {kind}")
        others = "(?:rank 0 waits in .*; )?"  # not if its stack was not read in time
        does = rf"rank 1 \(n1\).* (?:{SAID[kind]})"
        unread = r"the stack of rank 1 \(n1\) could not be read"
        alarm = self.running.wait_for_output(
            rf"dsrun: no progress for [0-9]+ s: {others}(?:{does}|{unread})"
        )
        if re.search(unread, alarm[0]):  # the alarm is not given again
            wait_for(lambda: re.search(does, dsrun_job(cluster, "stacks").stdout), kind)

    def release(self, cluster: Cluster, kind: str) -> None:
        """Let it go on.

        A worker of a loader that deadlocks is released itself: when torch shuts a loader down, it
        waits 5 s for such a worker (`MP_STATUS_CHECK_INTERVAL`), which is a hang of its own.
        """
        if kind == "loads":
            os.close(os.open(self._folder / "fifo", os.O_WRONLY | os.O_NONBLOCK))
        else:
            own = self.said(1, r"is locked (\d+)" if kind == "deadlocks" else r"is up (\d+)")[1]
            pid = find(cluster, "n1", lambda one: self._has_own_pid(one.pid, own))
            os.kill(pid, signal.SIGUSR1)
            if kind == "stops":  # what does not may have ended by now
                os.kill(pid, signal.SIGCONT)
        self.said(1, f"over: {kind}")

    def goes_on(self, times: int) -> None:
        """Wait until dsrun has said so often that rank 1 goes on."""
        line = "dsrun: rank 1 resumed after"
        self.running.wait_for_output(rf"(?s)(?:{line}.*?){{{times}}}")

    @staticmethod
    def _has_own_pid(pid: int, own: str) -> bool:
        """Return whether a process has this number on its host."""
        with suppress(OSError):  # another process of the host, which has ended
            status = Path(f"/proc/{pid}/status").read_text()
            return bool(re.search(rf"NSpid:.*\s{own}\n", status))
        return False

    def alarms(self) -> list[str]:
        """What dsrun has said of hangs."""
        return re.findall("(?m)^dsrun: .*no progress.*", self.running.stderr)
