"""Training in forks of one preloader: ranks find each other, load data, and end."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node.machine import ports
from dsrun.launcher.node.workers.spawn import WorkerSpec

from ...support.needs import need_modules
from ...support.preloading import COMMON, Ended, Preloader, await_orphans, preloader
from ...support.specs import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.usefixtures("adopting"), pytest.mark.tier("ci")]

TRAINS = """
import os
import numpy, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    how = os.environ.get("HOW")
    data = TensorDataset(torch.randn(32, 8), torch.randn(32, 1))
    loader = DataLoader(data, 8, num_workers=2 if how else 0, multiprocessing_context=how)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    total = sum(one.sum() for one in model.parameters())
    first = total.clone()
    dist.broadcast(first, 0)
    print(torch.equal(first, total), numpy.random.random(), torch.rand(1).item())
    dist.destroy_process_group()  # while the model still has the group

if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_modules("torch")
    found = tmp_path_factory.mktemp("training")
    (found / "train.py").write_text(TRAINS)
    return found


@pytest.fixture
def process(folder: Path, adopting: None) -> Iterator[Preloader]:  # noqa: ARG001
    modules = ["torch", "torch._dynamo", "torch.distributed", "numpy.random"]
    with preloader(modules, folder) as one:
        assert (one.report["failed"], one.report["unsafe"]) == ({}, "")
        assert one.report["read"].keys().isdisjoint({"RANK", "LOCAL_RANK", "WORLD_SIZE"})
        yield one
    await_orphans()


def trained(process: Preloader, folder: Path, ranks: int, **env: str) -> list[Ended]:
    """Train with so many forks at a time."""
    meeting = {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": f"{ranks}"}
    forks, workers = process.forks(ranks), []
    with closing(ports.Reservation(0)) as held:
        held.open_to_store()
        env |= {**meeting, "MASTER_PORT": f"{held.port}"}
        for rank, fork in enumerate(forks):
            variables = {**COMMON, **env, "RANK": f"{rank}", "LOCAL_RANK": f"{rank}"}
            encoded = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
            argv = [PYTHON, b"-u", b"train.py"]
            with fork.line:
                workers.append(fork.becomes(WorkerSpec(rank, argv, encoded, os.fsencode(folder))))
        return [worker.ends() for worker in workers]


def test_ranks_train_together_with_random_numbers_of_their_own(
    process: Preloader, folder: Path
) -> None:
    for _ in range(2):
        ended = trained(process, folder, 3)
        assert {(one.status, one.err, one.out.split()[0]) for one in ended} == {(0, "", "True")}
        numbers = [one.out.split()[1:] for one in ended]
        assert [len({*column}) for column in zip(*numbers, strict=True)] == [3, 3]


@pytest.mark.parametrize(
    "how", ["fork", "forkserver", pytest.param("spawn", marks=pytest.mark.tier("all"))]
)
def test_data_is_loaded_by_processes_however_they_start(
    process: Preloader, folder: Path, how: str
) -> None:
    (ended,) = trained(process, folder, 1, HOW=how)
    assert (ended.status, ended.err, ended.out.split()[0]) == (0, "", "True")


def test_the_import_of_torch_has_counted_the_cpus_of_the_worker(
    process: Preloader, folder: Path
) -> None:
    (folder / "counts.py").write_text(
        "import torch._inductor.config as one; print(one.compile_threads)"
    )
    env = {os.fsencode(name): os.fsencode(value) for name, value in COMMON.items()}
    argv, cpu = [PYTHON, b"-u", b"counts.py"], min(os.sched_getaffinity(0))
    worker = WorkerSpec(0, argv, env, os.fsencode(folder), cpus=(cpu,))
    assert process.run(worker) == Ended(0, "1\n", "")


@pytest.mark.tier("all")
def test_many_ranks_end(process: Preloader, folder: Path) -> None:
    ended = [one for _ in range(25) for one in trained(process, folder, 4)]
    assert {(one.status, one.err) for one in ended} == {(0, "")}
