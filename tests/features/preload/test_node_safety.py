"""What keeps a process from being forked, found in real processes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dsrun.launcher.features.preload import node_safety as safety
from dsrun.launcher.node.workers.spawn import WorkerSpec

from ...support.preloading import COMMON, await_orphans, preloader
from ...support.specs import PYTHON

pytestmark = pytest.mark.usefixtures("adopting")

DEVICES = ("/dev/net/tun", "/dev/fuse", "/dev/loop-control", "/dev/vhost-net", "/dev/kvm")


def unsafe(folder: Path, text: str, **env: str) -> str:
    """Why a preloader of a module with this text must not fork."""
    (folder / "mine.py").write_text(text)
    with preloader(["mine"], folder, folder, env={**COMMON, **env}) as process:
        assert process.report["failed"] == {}
        return str(process.report["unsafe"])


UNSAFE = {
    "a thread": (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,), daemon=True, name='watch').start()",
        "a thread is running (watch)",
    ),
    "a thread that Python does not know": (
        "import _thread, time; _thread.start_new_thread(time.sleep, (600,))",
        "a thread outside Python is running (",
    ),
    "a socket": ("import socket; kept = socket.socket()", "descriptor 3 (socket:["),
    "a pipe": ("import os; os.pipe()", "descriptor 3 (pipe:["),
    "an event loop": (
        "import asyncio; kept = asyncio.new_event_loop()",
        "descriptor 3 (anon_inode:[eventpoll]) is open",
    ),
    "shared memory": ("import mmap; kept = mmap.mmap(-1, 9)", "memory is shared (/dev/zero (del"),
    "a lock of processes": (
        "import multiprocessing\nkept = multiprocessing.get_context('fork').Lock()",
        "memory is shared (/dev/shm/sem.",
    ),
    "a child": ("import subprocess; kept = subprocess.Popen(['true'])", "a child process was st"),
}

SAFE = {
    "nothing": "",
    "open files": "import tempfile; kept = open(__file__), tempfile.TemporaryFile()",
    "a child that was waited for": "import subprocess; subprocess.run(['true'])",
    "a thread that has ended": (
        "import threading\nkept = threading.Thread(target=print)\nkept.start()\nkept.join()"
    ),
    "a mapped file": (
        "import mmap, tempfile\nkept = tempfile.TemporaryFile()\nkept.truncate(9)\n"
        "kept = mmap.mmap(kept.fileno(), 9, prot=mmap.PROT_READ)"
    ),
}


@pytest.mark.parametrize(("text", "reason"), UNSAFE.values(), ids=UNSAFE)
def test_a_fork_would_not_be_sound(tmp_path: Path, text: str, reason: str) -> None:
    said = re.sub(r"^descriptor \d+ ", "descriptor 3 ", unsafe(tmp_path, text))
    assert said.startswith(reason)  # libffi may have 3, which is that of its own file
    await_orphans()


@pytest.mark.parametrize("text", SAFE.values(), ids=SAFE)
def test_a_fork_would_be_sound(tmp_path: Path, text: str) -> None:
    assert unsafe(tmp_path, text) == ""


def test_nor_would_it_with_a_device_open(tmp_path: Path) -> None:
    usable = [one for one in DEVICES if os.access(one, os.R_OK) and opens(one)]
    if not usable:
        pytest.skip("needs a device file that can be opened")
    text = f"import os; os.open({usable[0]!r}, os.O_RDONLY)"
    assert unsafe(tmp_path, text) == f"the device file {usable[0]} is open"


def opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True


POOLS = {
    "numpy": "import numpy; kept = numpy.ones((600, 600))",
    "torch": "import torch; kept = torch.ones(600, 600)",
}

MULTIPLIES = """
import os, mine
print((mine.kept @ mine.kept).sum() == 600**3, len(os.listdir("/proc/self/task")))
"""


@pytest.mark.tier("ci")
@pytest.mark.parametrize("text", POOLS.values(), ids=POOLS)
def test_thread_pools_are_ended_and_start_again_in_forks(tmp_path: Path, text: str) -> None:
    pytest.importorskip(text.split()[1].rstrip(";"))
    (tmp_path / "mine.py").write_text(f"{text}; kept @ kept")
    (tmp_path / "train.py").write_text(MULTIPLIES)
    env = {**COMMON, "OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "3"}
    encoded = {name.encode(): value.encode() for name, value in env.items()}
    worker = WorkerSpec(0, [PYTHON, b"-u", b"train.py"], encoded, os.fsencode(tmp_path))
    with preloader(["mine"], tmp_path, tmp_path, env=env) as process:
        assert process.report["unsafe"] == ""
        truth, threads = process.run(worker).out.replace("tensor(True)", "True").split()
        assert truth == "True"
        assert int(threads) > 1


COUNTED = {
    "counted": ({}, True),
    "given": ({b"OMP_NUM_THREADS": b"4"}, False),
    "given as nothing": ({b"OMP_NUM_THREADS": b""}, True),
    "given, with places": ({b"OMP_NUM_THREADS": b"4", b"OMP_PROC_BIND": b"close"}, True),
}


@pytest.mark.parametrize(("env", "counted"), COUNTED.values(), ids=COUNTED)
def test_pools_count_cpus_unless_they_are_told(env: dict[bytes, bytes], counted: bool) -> None:
    pytest.importorskip("numpy")
    expected = sorted(os.sched_getaffinity(0)) if counted else None
    assert safety.counted_cpus(env) == expected


def test_nobody_counts_them_without_a_library_that_has_a_pool(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"]}
    with preloader(["colorsys"], tmp_path, env=env) as process:
        assert process.report["cpus"] is None
