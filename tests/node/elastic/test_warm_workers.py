"""WarmWorker workers on a real loop: who is taken, who is not, and that none is left."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dsrun.launcher.node.elastic
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.node import processes
from dsrun.launcher.node.elastic.warm_workers import WarmWorkers
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec

from ...support.leaks import open_files
from ...support.specs import PYTHON

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = os.fsencode(Path(dsrun.launcher.node.elastic.__file__).with_name("warm_process.py"))
SECONDS = 20.0
"""For what takes a fraction of a second on an idle machine."""

SCRIPT = """
import os, sys
print("colorsys" in sys.modules, os.environ["RANK"], os.environ["OMP_NUM_THREADS"], *sys.argv[1:])
"""


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def pool(loop: Loop) -> Iterator[WarmWorkers]:
    """A pool that begins at once, and leaves no child and no open file."""

    def made(worker: WorkerSpec, stdin: int) -> WorkerSpec:
        modules = worker.env.get(b"MODULES", b"colorsys")
        argv = [*worker.argv[:2], PROGRAM, modules, *worker.argv[2:]]
        return worker._replace(argv=argv, stdin=stdin)

    assert processes.children() == [], "these tests count children"
    files = open_files()
    with closing(WarmWorkers(loop, made, delay=0.0)) as pool:
        yield pool
    while processes.children():
        os.waitpid(-1, 0)
    until(loop, lambda: len(open_files()) == len(files))


@pytest.fixture
def worker(tmp_path: Path) -> Callable[..., WorkerSpec]:
    """Make a worker of this rank, with these variables and whatever else a WorkerSpec has."""
    (tmp_path / "train.py").write_text(SCRIPT)

    def made(rank: int = 0, threads: int = 1, **more: object) -> WorkerSpec:
        argv = [PYTHON, b"-u", b"train.py", b"x"]
        env = {b"RANK": b"%d" % rank, b"LOCAL_RANK": b"0", b"OMP_NUM_THREADS": b"%d" % threads}
        return WorkerSpec(rank, argv, env, os.fsencode(tmp_path), **more)  # type: ignore[arg-type]

    return made


def filled(pool: WarmWorkers, loop: Loop, *workers: WorkerSpec) -> list[int]:
    """Have a spare for each, all of them ready; returns their pids."""
    pool.fill(workers)
    until(loop, lambda: pool.ready == sum(not one.keep_stdin for one in workers))
    return pool.pids


def until(loop: Loop, condition: Callable[[], bool]) -> None:
    """Run the loop until this holds."""
    late = loop.call_later(SECONDS, lambda: pytest.fail("late"))

    def look() -> None:
        if condition():
            loop.stop()
        else:
            loop.call_later(0.003, look)

    loop.call_later(0.0, look)
    loop.run()
    late.cancel()


def output(process: Process) -> str:
    """What a worker prints till its end."""
    os.close(process.stdin)
    for fd in (process.stdout, process.stderr):
        os.set_blocking(fd, True)
    with os.fdopen(process.stdout, "rb") as out, os.fdopen(process.stderr, "rb") as err:
        text = out.read().decode()
        assert err.read() == b""
    os.waitpid(process.pid, 0)
    return text


def test_a_spare_becomes_the_worker_of_another_round(
    pool: WarmWorkers, loop: Loop, worker: Callable[..., WorkerSpec]
) -> None:
    (pid,) = filled(pool, loop, worker(rank=0))
    hired = pool.spawn(worker(rank=3))
    assert (hired.pid, hired.spec, pool.pids) == (pid, worker(rank=3), [])
    assert output(hired) == "True 3 1 x\n"


def test_each_spare_is_taken_once(
    pool: WarmWorkers, loop: Loop, worker: Callable[..., WorkerSpec]
) -> None:
    pids = filled(pool, loop, worker(0), worker(1))
    hired = [pool.spawn(worker(rank)) for rank in range(3)]
    assert [one.pid for one in hired[:2]] == pids
    assert [output(one) for one in hired] == ["True 0 1 x\n", "True 1 1 x\n", "False 2 1 x\n"]


@pytest.mark.parametrize(
    "other", [{"threads": 2}, {"cpus": (min(os.sched_getaffinity(0)),)}, {"keep_stdin": True}]
)
def test_what_counts_before_the_order_has_to_be_the_same(
    pool: WarmWorkers, loop: Loop, worker: Callable[..., WorkerSpec], other: dict[str, object]
) -> None:
    filled(pool, loop, worker())
    assert output(pool.spawn(worker(**other))).startswith("False 0")


def test_a_spare_that_nobody_needs_any_more_is_ended(
    pool: WarmWorkers, loop: Loop, worker: Callable[..., WorkerSpec]
) -> None:
    (former,) = filled(pool, loop, worker(threads=2))
    assert former not in filled(pool, loop, worker())
    assert os.WTERMSIG(os.waitpid(former, 0)[1]) == signal.SIGKILL


def test_nobody_waits_for_the_one_that_keeps_its_standard_input(
    pool: WarmWorkers, loop: Loop, worker: Callable[..., WorkerSpec]
) -> None:
    filled(pool, loop, worker(0, keep_stdin=True), worker(1))
    assert output(pool.spawn(worker(1))) == "True 1 1 x\n"


def test_one_that_has_died_is_not_taken(
    pool: WarmWorkers, loop: Loop, worker: Callable[..., WorkerSpec]
) -> None:
    (pid,) = filled(pool, loop, worker())
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert output(pool.spawn(worker())) == "False 0 1 x\n"


def test_nor_one_whose_end_has_been_taken_in(
    pool: WarmWorkers, loop: Loop, worker: Callable[..., WorkerSpec]
) -> None:
    (pid,) = filled(pool, loop, worker())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert output(pool.spawn(worker())) == "False 0 1 x\n"


def test_the_death_of_one_does_not_keep_the_next_from_starting(
    pool: WarmWorkers, loop: Loop, worker: Callable[..., WorkerSpec]
) -> None:
    pool.fill([worker(0), worker(1, threads=2)])
    until(loop, lambda: len(pool.pids) > 0)
    first = pool.pids[0]
    os.kill(first, signal.SIGKILL)
    until(loop, lambda: pool.ready == 1 and first not in pool.pids)
    assert output(pool.spawn(worker(1, threads=2))) == "True 1 2 x\n"


def test_the_next_starts_once_the_one_before_has_imported(
    pool: WarmWorkers, loop: Loop, worker: Callable[..., WorkerSpec]
) -> None:
    pool.fill([worker(0), worker(1)])
    until(loop, lambda: len(pool.pids) == 1)
    os.kill(pool.pids[0], signal.SIGSTOP)
    loop.call_later(0.2, loop.stop)
    loop.run()
    assert len(pool.pids) == 1
    os.kill(pool.pids[0], signal.SIGCONT)
    until(loop, lambda: len(pool.pids) == 2)


def test_one_that_still_imports_is_not_waited_for(
    pool: WarmWorkers, loop: Loop, worker: Callable[..., WorkerSpec], tmp_path: Path
) -> None:
    """A module may hang for ever: the worker starts cold, and so do those behind it."""
    (tmp_path / "hangs.py").write_text("print('imports', flush=True); import time; time.sleep(600)")
    slow = worker(0)._replace(env={**worker(0).env, b"MODULES": b"hangs"})
    pool.fill([slow, slow])
    until(loop, lambda: len(pool.pids) == 1)
    (hanging,) = pool.pids
    assert output(pool.spawn(slow)) == "False 0 1 x\n"
    assert pool.pids == [hanging]
    pool.close()
    assert os.WTERMSIG(os.waitpid(hanging, 0)[1]) == signal.SIGKILL


def test_nothing_starts_in_a_pool_that_is_closed(
    pool: WarmWorkers, loop: Loop, worker: Callable[..., WorkerSpec]
) -> None:
    pool.fill([worker(0), worker(1)])
    pool.close()
    loop.call_later(0.1, loop.stop)
    loop.run()
    assert (pool.pids, processes.children()) == ([], [])


def test_a_spare_that_cannot_start_is_a_cold_worker(
    pool: WarmWorkers, loop: Loop, worker: Callable[..., WorkerSpec]
) -> None:
    pool.fill([worker()._replace(workdir=b"/none"), worker(1)])
    loop.call_later(0.1, loop.stop)
    loop.run()
    assert pool.pids == []
    assert output(pool.spawn(worker(1))) == "False 1 1 x\n"
