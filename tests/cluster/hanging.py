"""Jobs that hang on hosts in all the ways there are, and jobs that only look so."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from .jobs import Job

if TYPE_CHECKING:
    from .hosts import Cluster

TIMEOUT = 1.0
"""Seconds, `--hang_timeout`."""

LIBRARIES = {
    **dict.fromkeys(("__init__.py", "utils/__init__.py", "utils/data/__init__.py"), ""),
    "distributed/__init__.py": "",
    "distributed/distributed_c10d.py": "import signal\ndef all_reduce():\n    signal.pause()\n",
    "utils/data/dataloader.py": "import os\ndef _next_data(pid):\n    os.waitpid(pid, 0)\n",
}
"""Functions with the names and the places of torch's, as importing torch takes seconds."""

HEAD = """
import ctypes, subprocess, threading
sys.path.insert(0, f"{folder}/site-packages")
from torch.distributed.distributed_c10d import all_reduce
from torch.utils.data.dataloader import _next_data

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
say("is up", os.getpid())
"""

HANGING = """
class Go(Exception):
    pass

def go(*_):
    raise Go

def sleeps():
    time.sleep(1000)

def stops():
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(1000)

def holds_gil():
    ctypes.PyDLL(None).pause()
    time.sleep(1000)

def locks():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def blocks():
    "In a vfork, whose child opens a pipe that has no other end, the kernel lets nobody interrupt."
    os.mkfifo(f"{folder}/fifo")
    opened = os.POSIX_SPAWN_OPEN, 0, f"{folder}/fifo", os.O_RDONLY, 0
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[opened])
    time.sleep(1000)

def loads():
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    try:
        _next_data(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

def works(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass

signal.signal(signal.SIGUSR1, go)
if rank != 3:
    all_reduce()
for kind in KINDS:
    works(0.3)
    say("hangs:", kind, time.monotonic())
    try:
        globals()[kind]()
    except Go:
        say("over:", kind)
works(1200)
rest()
"""

KINDS = {
    "sleeps": "sleeps in sleeps",
    "stops": "is stopped by a signal such as SIGSTOP",
    "holds_gil": "(is|has been) in holds_gil|waits for a signal in holds_gil",
    "locks": "waits for a lock or native code in locks",
    "blocks": "is in an uninterruptible wait in the kernel",
    "loads": "waits for the data loader in loads.* is stopped by a signal",
}
"""How rank 3 hangs, and what is said of it."""


HEALTHY = {
    "computes while the others wait": "until(lambda: None)",
    "starts a program that computes": "subprocess.run([sys.executable, '-c', SPIN])",
    "writes checkpoints to a slow disk": "until(save)",
    "reads its data": "until(read)",
    "prints, and does nothing else": "until(chat)",
    "computes in bursts": "until(lambda: (sum(range(5_000_000)), time.sleep(0.1)))",
    "computes in another thread": "inside(lambda: until(lambda: None))",
}
"""What rank 3 does while the others wait for it, three times as long as `--hang_timeout`."""

ALL_HEALTHY = {
    "all sleep": "time.sleep(SECONDS)",
    "all compute": "until(lambda: None)",
    "all wait for a file": "until(nap)",
}
"""What all ranks do."""

HEALTH = """
SECONDS = 6.5
SPIN = f"import time; end = time.time() + {SECONDS}\\nwhile time.time() < end: pass"

def until(step):
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        step()

def nap():
    time.sleep(0.1)

def chat():
    say("still here")
    time.sleep(0.15)

def save():
    with open(f"{folder}/checkpoint-{rank}", "wb") as file:
        file.write(bytes(100_000))
        os.fsync(file.fileno())
    time.sleep(0.1)

def read():
    with open(sys.executable, "rb") as file:
        file.read(100_000)
    time.sleep(0.1)

def inside(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()

if rank == 3 or ALL:
    DOES
    say("is done")
    rest()
all_reduce()
"""


def healthy(cluster: Cluster, folder: Path, what: str) -> list[str]:
    """Run a job that only looks as if it hung; return what dsrun has said of hangs."""
    package(folder)
    does = HEALTHY.get(what) or ALL_HEALTHY[what]
    code = HEALTH.replace("DOES", does).replace("ALL", str(what in ALL_HEALTHY))
    with Job(cluster, folder, f"{HEAD}\n{code}", "--hang_timeout", f"{2 * TIMEOUT}") as job:
        job.said(3, "is done")
        return [line for line in job.running.stderr.splitlines() if "no progress" in line]


class Hanging:
    """A job of four ranks on two hosts, of which rank 3 hangs in some ways, one after another."""

    def __init__(self, cluster: Cluster, folder: Path, kinds: tuple[str, ...]) -> None:
        package(folder)
        self._folder = folder
        code = f"{HEAD}\nKINDS = {kinds!r}\n{HANGING}"
        options = "--hang_timeout", f"{TIMEOUT}", "--heartbeat_timeout", "60"
        self.job = Job(cluster, folder, code, *options)
        self.pid = 0

    def __enter__(self) -> Hanging:
        self.job.__enter__()
        (self.pid,) = (
            pid
            for pid in self.job.pids("n2")
            if b"RANK=3" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        )
        return self

    def __exit__(self, *error: object) -> None:
        self.job.__exit__(*error)

    def named(self, kind: str) -> float:
        """Wait until rank 3 hangs in this way and is named; return how long that took."""
        began = float(self.job.said(3, rf"hangs: {kind} ([0-9.]+)")[1])
        # What a busy machine has not read in time of the others is left out of the sentence.
        others = r"(?:ranks 0-2 wait in all_reduce \(train.py:[0-9]+\); )?"
        words = rf"dsrun: no progress for [0-9]+ s: {others}rank 3 \(n2\).* (?:{KINDS[kind]})"
        self.job.running.wait_for_output(words)
        return time.monotonic() - began

    def release(self, kind: str) -> None:
        """Let it go on."""
        if kind == "blocks":
            os.close(os.open(self._folder / "fifo", os.O_WRONLY))
        os.kill(self.pid, signal.SIGUSR1)
        os.kill(self.pid, signal.SIGCONT)
        self.job.said(3, f"over: {kind}")

    def goes_on(self, times: int) -> None:
        """Wait until dsrun has said so often that rank 3 goes on."""
        line = "dsrun: (?:rank 3|ranks 2-3) resumed after"  # of its node, both may have stood
        self.job.running.wait_for_output(rf"(?s)(?:{line}.*?){{{times}}}")

    def lines(self, pattern: str) -> list[str]:
        """What dsrun has said so far that is like this."""
        return re.findall(rf"(?m)^dsrun: ({pattern}.*)", self.job.running.stderr)


def package(folder: Path) -> None:
    """Write what the workers import."""
    for name, text in LIBRARIES.items():
        file = folder / "site-packages" / "torch" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
