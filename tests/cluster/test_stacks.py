"""dsrun-job stacks with real jobs on hosts: whom the others wait for, and what cannot answer."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from ..support import schemas
from ..support.limits import wait_for
from .jobs import OBEDIENT, Job
from .test_jobs import dsrun_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .hosts import Cluster

MORE_HOSTS = "--host", "n3:2,n4:2"

LIBRARY = """
import signal

def all_reduce():
    while True:
        signal.pause()
"""
"""A function with the name and the place of torch's, as importing torch takes seconds."""

CODE = """
sys.path.insert(0, f"{folder}/site-packages")
from torch.distributed.distributed_c10d import all_reduce

def load_batch():
    time.sleep(1000)

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
say("is up")
load_batch() if rank == 7 else all_reduce()
"""

SENTENCE = re.compile(
    r"ranks 0-6 wait in all_reduce \(train\.py:\d+\);"
    r" rank 7 \(n4\) sleeps in load_batch \(train\.py:\d+\)\n"
)

Asked = TypeVar("Asked")


def told(cluster: Cluster) -> dict[str, Any]:
    """What dsrun-job tells of the only job."""
    ran = dsrun_job(cluster, "stacks", "--json")
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    assert schemas.faults("stacks", found) == []
    return found


def first(ask: Callable[[], Asked], fits: Callable[[Asked], bool], what: str) -> Asked:
    """Ask until an answer fits: a busy machine may need longer than the second that nodes have."""
    answers: list[Asked] = []

    def asked() -> bool:
        answers.append(ask())
        return fits(answers[-1])

    wait_for(asked, what)
    return answers[-1]


def late(answer: dict[str, Any]) -> set[str]:
    """The hosts that have not answered in time."""
    return {one["host"] for one in answer["ranks"] if one["problem"].startswith("no stacks within")}


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.tier("test")
def test_the_rank_that_the_others_wait_for_is_named(cluster: Cluster, tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "torch" / "distributed"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "distributed_c10d.py").write_text(LIBRARY)
    with Job(cluster, tmp_path, CODE, *MORE_HOSTS, "--log_dir", "logs"):
        whole = first(
            lambda: told(cluster),
            lambda one: [one["odd"], one["waiting"]] == [[7], [*range(7)]],
            "all ranks",
        )
        assert whole["reason"] == "outside"
        text = first(
            lambda: dsrun_job(cluster, "stacks", "--save").stdout,
            lambda text: bool(SENTENCE.match(text)),
            "the stacks of all ranks",
        )
        assert "ranks 0-6 (n[1-4]): wait in all_reduce (train.py:" in text
        assert [path.name for path in sorted(tmp_path.rglob("*.stacks"))] == [
            f"rank-000{rank}.stacks" for rank in range(8)
        ]


def test_who_cannot_answer_is_named(cluster: Cluster, tmp_path: Path) -> None:
    with Job(cluster, tmp_path, OBEDIENT) as job:
        rank, _ = job.pids("n2")
        with stopped(rank):
            found = first(
                lambda: told(cluster), lambda one: one["reason"] == "stopped", "the stopped rank"
            )
            (odd,) = found["odd"]
            assert odd in {2, 3}
        with stopped(*job.launchers("n2")):
            frozen = first(
                lambda: told(cluster), lambda one: "n1" not in late(one), "an answer of n1"
            )
        assert [frozen["reason"], frozen["odd"]] == ["silent", [2, 3]]
        assert "ranks 2-3 (n2): no stacks within 1 s" in frozen["sentence"]
        wait_for(lambda: told(cluster)["reason"] == "nobody", "an answer of all nodes")
