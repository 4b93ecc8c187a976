"""Workers on real hosts that are forked from a preloader, and whatever may go wrong with it."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from .command import CHECKOUT
from .held import Held
from .jobs import parent
from .rounds import IMPORT, elastic, node_launcher

if TYPE_CHECKING:
    from .command import Dsrun
    from .hosts import Cluster, Process

MINE = """
import os, threading, time
host, folder = os.uname().nodename, os.path.dirname(__file__)
if host == "n2":
    os.environ.get("LOCAL_RANK")
if host == "n3":
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
while host == "n4":
    if os.path.exists(f"{folder}/goes-on"):
        with open(__file__) as file:
            file.read()
    time.sleep(0.05)
"""

WORKER = """
import os, sys, time
folder, rank = os.path.dirname(os.path.abspath(sys.argv[0])), os.environ["RANK"]
restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
imported = "mine" in getattr(sys.meta_path[0], "kept", ())
with open("/proc/self/cmdline") as file:
    command = file.read().split("\\0")[1:3]
os.write(1, f"up {rank} {restarts} {imported} {os.getpid()} {command}\\n".encode())
while not os.path.exists(f"{folder}/end"):
    if os.path.exists(f"{folder}/fail-{rank}-{restarts}"):
        os._exit(7)
    time.sleep(0.02)
"""


@pytest.fixture
def work(tmp_path: Path) -> str:
    """A worker that runs until a file says that it is to end, or to fail."""
    (tmp_path / "train.py").write_text(WORKER)
    (tmp_path / "mine.py").write_text(MINE)
    return str(tmp_path / "train.py")


def preloading(cluster: Cluster, host: str) -> list[Process]:
    """The preloader of a host, and its forks that wait."""
    found = (p for p in cluster.processes() if p.host == host)
    processes = [p for p in found if any(a.endswith("/preload/process.py") for a in p.argv)]
    pids = {one.pid for one in processes}

    def is_fork(one: Process) -> bool:
        with suppress(OSError):
            return parent(one.pid) in pids
        return True  # it has just ended

    return sorted(processes, key=is_fork)


def kill(process: Process) -> None:
    """Kill a process, and wait until its parent has seen that."""
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{process.pid}").exists(), "the end of a process")


@pytest.mark.tier("test")
def test_workers_are_forks_where_that_is_possible(dsrun: Dsrun, tmp_path: Path, work: str) -> None:
    """Not after a module has read LOCAL_RANK or started a thread, nor if it hangs for 10 s."""
    hosts = ("--host", "n1:2,n2:2,n3:1,n4:1", "--accelerator", "cpu")
    running = dsrun.start(*hosts, "--preload", "mine,absent", work, cwd=tmp_path)
    running.wait_for_output(r"(?s)(up .*){6}", IMPORT)
    (tmp_path / "end").touch()
    done = running.wait()
    assert done.returncode == 0, str(running)
    shown = re.findall(r"(?m)^(n\d):(\d)\| up \d 0 (\w+) \d+ \['-u', '(.*)'\]$", done.stdout)
    assert sorted((host, int(rank), imported) for host, rank, imported, _ in shown) == [
        *(("n1", 0, "True"), ("n1", 1, "True"), ("n2", 2, "False"), ("n2", 3, "False")),
        *(("n3", 4, "False"), ("n4", 5, "False")),
    ]
    assert {path for *_, path in shown} == {work}
    for why in (
        "n2: workers import mine, absent themselves: the variable LOCAL_RANK,",
        "n3: workers import mine, absent themselves: forking is not safe after their import: a ",
        "n4: workers import mine, absent themselves: the import made no progress for 10 s",
        "n1: not preloaded: No module named 'absent'",
    ):
        assert why in done.stderr
    assert "n1: workers import" not in done.stderr


def test_kills(cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str) -> None:
    """Of a preloader while it imports, then of a worker that was forked."""
    (tmp_path / "goes-on").touch()
    running = dsrun.start("--host", "n1:1,n4:1", "--preload", "mine", work, cwd=tmp_path)
    running.wait_for_output("up 0 0 True", IMPORT)
    wait_for(lambda: preloading(cluster, "n4"), "the preloader of the other node")
    (preloader,) = preloading(cluster, "n4")
    os.kill(preloader.pid, signal.SIGKILL)
    running.wait_for_output("up 1 0 False")
    running.wait_for_output("n4: workers import mine themselves: the preloader exited")
    (worker,) = (p for p in cluster.processes() if p.host == "n1" and work in p.argv)
    wait_for(lambda: not preloading(cluster, "n1"), "no preloader")
    os.kill(worker.pid, signal.SIGKILL)
    done = running.wait()
    assert done.returncode == 128 + signal.SIGKILL
    assert "rank 0 (n1, local rank 0" in done.stderr


def test_the_next_round_is_forked_as_well(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    """Also if a fork that waits has been killed; without the preloader it costs a line."""
    (tmp_path / "mine.py").write_text("")
    warm = ("--warm_workers", "--warm_modules", "mine")
    running = elastic(dsrun, work, "n1:2,n2:1", "--max_restarts", "3", *warm)
    for restarts in range(2):
        for label in ("n1:0", "n1:1", "n2:2"):
            running.wait_for_output(rf"(?m)^{label}[|] up {label[-1]} {restarts} True", IMPORT)
        wait_for(lambda: len(preloading(cluster, "n1")) == 3, "forks that wait")
        kill(preloading(cluster, "n1")[1])
        (tmp_path / f"fail-{2 - restarts}-{restarts}").touch()
    running.wait_for_output(r"(?s)(up \d 2 True.*){3}", IMPORT)
    kill(preloading(cluster, "n1")[0])
    (tmp_path / "fail-2-2").touch()
    for line in ("n1:0| up 0 3 False", "n1:1| up 1 3 False", "n2:2| up 2 3 True"):
        running.wait_for_output(rf"(?m)^{re.escape(line)}", IMPORT)
    running.wait_for_output("n1: workers import mine themselves: the preloader exited")
    running.process.send_signal(signal.SIGTERM)
    assert running.wait(IMPORT).returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("how", ["runner killed", "node launcher killed"])
def test_nothing_that_preloads_outlives_the_job(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str, how: str
) -> None:
    """It may be in the middle of an import, or wait for an order."""
    (tmp_path / "goes-on").touch()
    warm = ("--warm_workers", "--warm_modules", "mine")
    running = elastic(dsrun, work, "n1:1,n4:1", "--max_restarts", "1", *warm)
    wait_for(lambda: len(preloading(cluster, "n1")) == 2, "a fork that waits", IMPORT)
    wait_for(lambda: len(preloading(cluster, "n4")) == 1, "the preloader of n4")
    os.kill(running.pid if how == "runner killed" else node_launcher(cluster, "n4"), signal.SIGKILL)
    assert running.wait(IMPORT).returncode == (-9 if how == "runner killed" else 75)
    for host in ("n1", "n4"):
        wait_for(lambda host=host: not preloading(cluster, host), "no preloader")  # type: ignore[misc]


TAKING = """
import os, sys, time
forked = "mine" in getattr(sys.meta_path[0], "kept", ())
from dsrun.accelerator.shards import ShardQueue

folder, restarts = os.path.dirname(sys.argv[0]), os.environ["TORCHELASTIC_RESTART_COUNT"]
queue = ShardQueue("all", size=40, shard=10)
print("takes", restarts, forked, queue.take().number, flush=True)
while not os.path.exists(f"{folder}/fail-0-{restarts}"):
    time.sleep(0.02)
os._exit(7)
"""


@pytest.mark.usefixtures("work")
def test_a_fork_has_a_line_to_the_shard_queues(dsrun: Dsrun, tmp_path: Path) -> None:
    """What its former self has taken, it takes again."""
    (tmp_path / "train.py").write_text(TAKING)
    modules = ("--export", f"PYTHONPATH={CHECKOUT}/tests/import")
    more = ("--preload", "mine", "--shard_queue", *modules)
    running = elastic(dsrun, str(tmp_path / "train.py"), "n1:1", "--max_restarts", "1", *more)
    running.wait_for_output("takes 0 True 0", IMPORT)
    (tmp_path / "fail-0-0").touch()
    running.wait_for_output("takes 1 True 0", IMPORT)
    (tmp_path / "fail-0-1").touch()
    assert running.wait(IMPORT).returncode == 7


def test_a_held_node_replaces_one_that_was_killed(
    cluster: Cluster, tmp_path: Path, work: str
) -> None:
    """The next job starts without it, with a line, and the one after that has another."""
    (tmp_path / "end").touch()
    (tmp_path / "mine.py").write_text("")
    with Held(cluster, tmp_path, "n1:1,n2:1", "--preload", "mine") as held:
        assert held(work).stdout.count("True") == 2
        wait_for(lambda: len(preloading(cluster, "n2")) == 1, "the end of its fork")
        (preloader,) = preloading(cluster, "n2")
        os.kill(preloader.pid, signal.SIGKILL)
        second = held(work)
        assert (second.stdout.count("True"), second.stdout.count("False")) == (1, 1)
        assert "n2: workers import mine themselves: the preloader exited" in second.stderr
        third = held(work)
        assert (third.stdout.count("True"), third.stderr.count("themselves")) == (2, 0)
    wait_for(lambda: not preloading(cluster, "n1"), "no preloader")
