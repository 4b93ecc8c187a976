"""Elastic jobs on real hosts whose next round has imported beforehand."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .command import CHECKOUT
from .machines import wait_for
from .rounds import IMPORT, elastic, ended, node_launcher

if TYPE_CHECKING:
    from .command import Dsrun
    from .hosts import Cluster, Process

pytestmark = pytest.mark.usefixtures("torch_is_here")

WORKER = """
import os, sys, time

folder = os.path.dirname(sys.argv[0])
rank, restarts = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
print("up", rank, restarts, "torch" in sys.modules, "mine" in sys.modules, flush=True)
while not os.path.exists(f"{folder}/end"):
    if os.path.exists(f"{folder}/fail-{rank}-{restarts}"):
        os._exit(7)
    time.sleep(0.02)
"""


MINE = """
import os
print("imported", flush=True)
open(f"{os.path.dirname(__file__)}/imported-{os.uname().nodename}-{os.getpid()}", "w").close()
"""


@pytest.fixture
def work(tmp_path: Path) -> str:
    """A worker that runs until a file says that it is to end, or to fail; it imports nothing."""
    (tmp_path / "train.py").write_text(WORKER)
    (tmp_path / "mine.py").write_text(MINE)
    return str(tmp_path / "train.py")


def spares(cluster: Cluster, count: int, *former: Process) -> list[Process]:
    """So many spares, once they are there; workers that have been spares do not count."""
    known = {one.pid for one in former}

    def found() -> list[Process]:
        warm = [
            p for p in cluster.processes() if any(a.endswith("/warm_process.py") for a in p.argv)
        ]
        return [p for p in warm if p.pid not in known]

    wait_for(lambda: len(found()) == count, f"{count} spares", 2 * IMPORT)
    return found()


def test_the_next_round_has_imported(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str
) -> None:
    """But for a worker whose spare was killed; what a spare prints is the worker's."""
    warm = ("--warm_workers", "--warm_modules", "torch,mine")
    running = elastic(dsrun, work, "n1:2,n2:1", "--max_restarts", "2", *warm)
    first = ready(cluster, tmp_path, 3)
    assert "imported" not in running.stdout
    (tmp_path / "fail-2-0").touch()
    for label in ("n1:0", "n1:1", "n2:2"):
        both = rf"(?ms)^{label}[|] imported$.*^{label}[|] up {label[-1]} 1 True True$"
        running.wait_for_output(both, IMPORT)
    second = ready(cluster, tmp_path, 3, *first)
    (victim,) = [p for p in second if "--local_rank=1" in p.argv]
    os.kill(victim.pid, signal.SIGKILL)
    (tmp_path / "fail-0-1").touch()
    for line in ("n1:0| up 0 2 True", "n1:1| up 1 2 False", "n2:2| up 2 2 True"):
        running.wait_for_output(rf"(?m)^{line.replace('|', '[|]')}", IMPORT)
    running.process.send_signal(signal.SIGTERM)
    assert running.wait(IMPORT).returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("how", ["well", "runner killed", "node launcher killed"])
def test_no_spare_outlives_the_job(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path, work: str, how: str
) -> None:
    """It may be in the middle of an import."""
    running = elastic(dsrun, work, "n1:1,n2:1", "--max_restarts", "1", "--warm_workers")
    spares(cluster, 2)
    if how == "well":
        ended(running, tmp_path)
        return
    os.kill(running.pid if how == "runner killed" else node_launcher(cluster, "n1"), signal.SIGKILL)
    assert running.wait(IMPORT).returncode == (-9 if how == "runner killed" else 75)
    wait_for(lambda: not any(work in p.argv for p in cluster.processes()), "no spare")


def ready(cluster: Cluster, folder: Path, count: int, *former: Process) -> list[Process]:
    """So many spares, once they have imported `mine`, and have said so: they wait for an order."""
    imported = len(former) + count
    wait_for(lambda: len(list(folder.glob("imported-*"))) == imported, "imports", 2 * IMPORT)
    found = spares(cluster, count, *former)
    wait_for(lambda: all(state(one) == "S" for one in found), "spares at rest", IMPORT)
    return found


def state(process: Process) -> str:
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0]


TAKING = """
import os, sys, time
warm = "torch" in sys.modules
from dsrun.accelerator.shards import ShardQueue

folder, restarts = os.path.dirname(sys.argv[0]), os.environ["TORCHELASTIC_RESTART_COUNT"]
queue = ShardQueue("all", size=40, shard=10)
print("takes", restarts, warm, queue.take().number, flush=True)
while not os.path.exists(f"{folder}/fail-0-{restarts}"):
    time.sleep(0.02)
os._exit(7)
"""


def test_a_spare_has_a_line_to_the_shard_queues(
    cluster: Cluster, dsrun: Dsrun, tmp_path: Path
) -> None:
    """What its former self has taken, it takes again."""
    (tmp_path / "train.py").write_text(TAKING)
    (tmp_path / "mine.py").write_text(MINE)
    modules = ("--export", f"PYTHONPATH={CHECKOUT}/tests/import")
    warm = ("--warm_workers", "--warm_modules", "torch,mine", "--shard_queue", *modules)
    running = elastic(dsrun, str(tmp_path / "train.py"), "n1:1", "--max_restarts", "1", *warm)
    running.wait_for_output("takes 0 False 0", IMPORT)
    ready(cluster, tmp_path, 1)
    (tmp_path / "fail-0-0").touch()
    running.wait_for_output("takes 1 True 0", IMPORT)
    (tmp_path / "fail-0-1").touch()
    assert running.wait(IMPORT).returncode == 7
