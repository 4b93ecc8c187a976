"""Collectives of a worker that cannot be asked: from the dump of NCCL's watchdog."""

from __future__ import annotations

import os
import pickle
import time
from typing import TYPE_CHECKING

from dsrun.launcher.features.stacks import node_flight as flight
from dsrun.launcher.features.stacks.hook import sitecustomize
from dsrun.launcher.features.stacks.node_outfit import DUMP
from dsrun.launcher.node.workers.spawn import Process, WorkerSpec

from ...support.leaks import open_files

if TYPE_CHECKING:
    from pathlib import Path

    from dsrun.launcher.features.stacks.messages import Collective

RECORD = {
    "entries": [
        {"collective_seq_id": 5, "process_group": ("0", "x"), "profiling_name": "nccl:all_gather"}
    ]
}


def read(folder: Path, *, variable: str = DUMP) -> list[Collective]:
    env = {variable.encode(): os.fsencode(folder / "nccl_trace_rank_")}
    worker = Process(WorkerSpec(3, [b"python"], env, b"/"), os.getpid(), -1, -1, -1)
    asked = flight.ask([worker])
    assert asked == {}
    return [*flight.collectives(flight.records([worker], asked, time.monotonic() + 5))]


def test_a_dump_is_read_if_there_is_no_answer(tmp_path: Path) -> None:
    dump = tmp_path / "nccl_trace_rank_3"
    assert read(tmp_path) == []
    dump.write_bytes(pickle.dumps(RECORD))
    (row,) = read(tmp_path)
    assert (row.rank, row.group, row.sequence, row.operation) == (3, "0 x", 5, "all_gather")
    assert read(tmp_path, variable="OTHER") == []


def test_a_dump_that_is_none_of_ours_is_not(tmp_path: Path) -> None:
    dump = tmp_path / "nccl_trace_rank_3"
    dump.write_bytes(b"broken")
    assert read(tmp_path) == []
    dump.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(pickle.dumps(RECORD))
    dump.symlink_to(tmp_path / "elsewhere")
    assert read(tmp_path) == []
    dump.unlink()
    os.mkfifo(dump)
    assert read(tmp_path) == []


def test_an_answer_that_is_no_json_is_nothing() -> None:
    assert flight._parsed(b"[{]\n") == []
    assert flight._parsed(b"5\n") == []
    assert flight._parsed(b"[" * 100_000 + b"\n") == []


def test_a_worker_without_its_pipe_is_not_asked(tmp_path: Path) -> None:
    """A program may have closed the pipe, and opened a file of that number."""
    with (tmp_path / "file").open("wb") as other:
        fd = os.memfd_create(f"{sitecustomize.COLLECTIVES}{other.fileno()}")
        before = open_files()
        assert flight._ask(os.getpid()) is None
        assert open_files() == before
        os.close(fd)
    assert (tmp_path / "file").read_bytes() == b""
