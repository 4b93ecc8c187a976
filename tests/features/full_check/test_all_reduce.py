"""All-reduces with torch, of processes on this machine in place of nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import messages
from dsrun.launcher.features.full_check.measurements import ReadyForCollectives, Reduced
from dsrun.launcher.features.full_check.node_collective import ALL_REDUCE

from ...support.needs import need_modules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ADDRESS = "127.0.0.1"
NOTHING = '{"gpus": 0, "interfaces": {}}'


class Nodes:
    """Processes that take part, one a node."""

    def __init__(self, stack: ExitStack, count: int, gpus: int = 0) -> None:
        given = json.dumps({"gpus": gpus, "interfaces": {ADDRESS: "lo"}})
        command, pipe = [sys.executable, ALL_REDUCE, given], subprocess.PIPE
        self._processes = []
        for _ in range(count):
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
            stack.callback(process.communicate)
            stack.callback(process.kill)
            self._processes.append(process)

    def read(self) -> list[dict[str, Any]]:
        """The next line of each."""
        return [json.loads(one.stdout.readline()) for one in self._processes if one.stdout]

    def tell(self, *orders: dict[str, Any]) -> None:
        """Send each its order."""
        for process, order in zip(self._processes, orders, strict=True):
            assert process.stdin is not None
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()


@pytest.fixture
def three() -> Iterator[Nodes]:
    need_modules("torch")
    with ExitStack() as stack:
        yield Nodes(stack, 3)


@pytest.mark.tier("ci")
def test_all_and_pairs_reduce_with_right_sums(three: Nodes) -> None:
    ready = [messages.from_fields(ReadyForCollectives, line) for line in three.read()]
    assert [one.backend for one in ready] == ["gloo"] * 3
    join = {"ranks": [1, 1, 1], "addresses": [ADDRESS], "port": ready[0].port}
    three.tell(*({"place": place, **join} for place in range(3)))
    joined = [messages.from_fields(Reduced, line) for line in three.read()]
    assert [one.places for one in joined] == [(0, 1, 2)] * 3
    assert three.read() == [{"failed": ""}] * 3
    three.tell(*[{"pairs": [[0, 0, 1], [1, 1, 2]]}] * 3)
    (first, second, third) = three.read()
    assert (first["places"], second["places"], third["places"]) == ([0, 1], [0, 1], [1, 2])
    for row in (*joined, Reduced(**first)):
        assert row.wrong == 0
        assert row.latency > 0
        assert row.bandwidth > 0


def test_without_torch_there_is_a_reason() -> None:
    command = [sys.executable, "-S", ALL_REDUCE, NOTHING]
    done = subprocess.run(command, capture_output=True, check=True)
    ready = messages.unpack(ReadyForCollectives, done.stdout)
    assert ready.missing == "torch cannot be imported: No module named 'torch'"


@pytest.mark.gpu
def test_gpus_reduce_with_nccl() -> None:
    """NCCL takes no GPU twice, so that one node has to do."""
    import torch

    gpus = torch.cuda.device_count()
    with ExitStack() as stack:
        node = Nodes(stack, 1, gpus)
        (ready,) = (messages.from_fields(ReadyForCollectives, line) for line in node.read())
        assert (ready.backend, ready.ranks) == ("nccl", gpus)
        node.tell({"place": 0, "ranks": [gpus], "addresses": [ADDRESS], "port": ready.port})
        (reduced,) = (messages.from_fields(Reduced, line) for line in node.read())
        assert (reduced.places, reduced.wrong) == ((0,), 0)
        assert node.read() == [{"failed": ""}]


def test_modules_beside_the_program_hide_no_others(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import network")
    environ = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-s", ALL_REDUCE, NOTHING], capture_output=True, check=True, env=environ
    )
    assert messages.unpack(ReadyForCollectives, done.stdout).missing.endswith(
        "No module named 'network'"
    )
