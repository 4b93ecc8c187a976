"""Ranks in made-up places, for tests of who waits for whom."""

from __future__ import annotations

from dsrun.launcher.features.stacks.messages import Collective, ProcessState, ThreadStack
from dsrun.launcher.features.stacks.runner_view import RankView

LIB = "/venv/lib/python3.11"
C10D = f"{LIB}/site-packages/torch/distributed/distributed_c10d.py"
LOADER = f"{LIB}/site-packages/torch/utils/data/dataloader.py"
TENSOR = f"{LIB}/site-packages/torch/_tensor.py"

TRAIN = ("main (/work/train.py:41)", "<module> (/work/train.py:60)")
ALL_REDUCE = (
    f"all_reduce ({C10D}:3252)",
    f"_exception_logger.<locals>.wrapper ({LIB}/site-packages/torch/distributed/c10d_logger.py:83)",
    *TRAIN,
)
BARRIER = (f"barrier ({C10D}:5000)", "save (/work/train.py:55)", *TRAIN[1:])
NEW_GROUP = (
    f"_store_based_barrier ({C10D}:1003)",
    f"_new_group_with_tag ({C10D}:5700)",
    f"new_group ({C10D}:5610)",
    "groups (/work/train.py:44)",
    *TRAIN[1:],
)
MODULE = (
    f"Module._call_impl ({LIB}/site-packages/torch/nn/modules/module.py:1789)",
    f"Module._wrapped_call_impl ({LIB}/site-packages/torch/nn/modules/module.py:1778)",
)
DDP = f"{LIB}/site-packages/torch/nn/parallel/distributed.py"
BUFFERS = (
    f"DistributedDataParallel._distributed_broadcast_coalesced ({DDP}:2363)",
    f"DistributedDataParallel._sync_module_buffers ({DDP}:2429)",
    f"DistributedDataParallel._sync_buffers ({DDP}:2425)",
    f"DistributedDataParallel._pre_forward ({DDP}:1782)",
    f"DistributedDataParallel.forward ({DDP}:1886)",
    *MODULE,
    *TRAIN,
)
LOAD = ("load_batch (/work/data.py:88)", "main (/work/train.py:39)", *TRAIN[1:])
BACKWARD = (f"Tensor.backward ({TENSOR}:630)", *TRAIN)
NEXT = (
    f"_PollLikeSelector.select ({LIB}/selectors.py:415)",
    f"wait ({LIB}/multiprocessing/connection.py:947)",
    f"Queue.get ({LIB}/multiprocessing/queues.py:113)",
    f"_BaseDataLoaderIter.__next__ ({LOADER}:725)",
    *LOAD,
)
FETCH = (
    "Images.__getitem__ (/work/data.py:12)",
    f"_worker_loop ({LIB}/site-packages/torch/utils/data/_utils/worker.py:374)",
    f"BaseProcess._bootstrap ({LIB}/multiprocessing/process.py:314)",
    *LOAD,
)
IDLE = (
    f"Queue.get ({LIB}/multiprocessing/queues.py:113)",
    *FETCH[1:],
)


def process(rank: int, pid: int = 0, state: str = "S", waits_in: str = "") -> ProcessState:
    """Return a worker's process; with a pid, one that it has started."""
    return ProcessState(
        rank,
        pid or 4000 + rank,
        4000 + rank if pid else 1,
        "python train.py",
        *(state, waits_in, "py-spy", ""),
    )


def thread(pid: int, frames: tuple[str, ...], *, active: bool = False) -> ThreadStack:
    """Return the main thread of a process."""
    return ThreadStack(pid, "MainThread", True, active, frames)


def view(
    rank: int,
    frames: tuple[str, ...] = ALL_REDUCE,
    *,
    state: str = "S",
    waits_in: str = "",
    active: bool = False,
    children: tuple[tuple[ProcessState, tuple[str, ...]], ...] = (),
    collectives: tuple[Collective, ...] = (),
    idle: float = 0.0,
) -> RankView:
    """Return a rank, of two on each node: ranks 0 and 1 on n0."""
    pid = 4000 + rank
    threads = ((pid, frames), *((one.pid, its) for one, its in children))
    return RankView(
        rank,
        f"n{rank // 2}",
        pid,
        (process(rank, state=state, waits_in=waits_in), *(one for one, _ in children)),
        tuple(thread(pid, its, active=active) for pid, its in threads if its),
        collectives,
        idle,
    )


def collective(
    rank: int,
    sequence: int,
    state: str = "started",
    *,
    operation: str = "all_reduce",
    sizes: str = "[[10]]",
    members: tuple[int, ...] = (0, 1, 2, 3),
) -> Collective:
    """Return a collective of a rank in the group of all."""
    return Collective(
        *(rank, "default_pg", members, sequence, operation),
        *(sizes, "['Float']", state, 1.0, "main (/work/train.py:41)"),
    )


def ranks(*views: RankView) -> dict[int, RankView]:
    """Return ranks by their numbers."""
    return {one.rank: one for one in views}
