"""The steps of the full check about nodes and collectives, on virtual hosts."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.full_check import runner_collective_step as collective_step
from dsrun.launcher.features.full_check import runner_device_step as device_step

from ..support.needs import need_modules
from .full_checks import check
from .quota import throttled

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from .hosts import Cluster

FOUR = ("n1", "n2", "n3", "n4")
QUOTA = 0.25
"""Cores."""


def named(
    cluster: Cluster, host: AbstractContextManager[None], workdir: str = ""
) -> list[tuple[tuple[str, ...], str]]:
    """Who is named, and as what."""
    with host:
        result = check(cluster, FOUR, device_step.step(workdir))
    assert result.notes == ()
    return [(one.nodes, one.code) for one in result.faults]


@pytest.mark.tier("test")
def test_a_throttled_host_is_named_and_no_other(cluster: Cluster) -> None:
    with throttled(cluster, "n3", QUOTA):
        result = check(cluster, FOUR, device_step.step("/dev/shm"))
    assert {one.nodes for one in result.faults} == {("n3",)}
    (stopped,) = (one for one in result.faults if one.code == "stopped_cores")
    assert "CPU quota was used up" in stopped.text
    written = {one["part"] for one in result.measured["values"] if one["test"] == "write"}
    assert written == {"work", "temp"}


def test_all_with_torch_reduce_and_the_rest_is_left_out(cluster: Cluster, tmp_path: Path) -> None:
    need_modules("torch")
    (tmp_path / "torch.py").write_text("raise ImportError('no libcudart')")
    host = cluster.host("n2")
    try:
        host.before = ("env", f"PYTHONPATH={tmp_path}")
        result = check(cluster, FOUR, collective_step.step())
    finally:
        host.before = ()
    # On a busy machine, one pair may well be slower than the others.
    assert {fault.code for fault in result.faults} <= {"slow_collective"}
    (note,) = result.notes
    assert note.startswith("n2: left out of the collectives: torch cannot be imported: no libcud")
    pairs = {tuple(row["nodes"]): row for row in result.measured["pairs"]}
    assert set(pairs) == {("n1", "n3"), ("n1", "n4"), ("n3", "n4")}
    assert all(row["bandwidth_bytes_per_s"] > 1e6 for row in pairs.values())
    (whole,) = result.measured["all"]
    assert (whole["nodes"], whole["wrong"]) == (["n1", "n3", "n4"], 0)


@pytest.mark.tier("all")
@pytest.mark.parametrize("cores", [QUOTA, 0.5])
def test_the_throttled_host_is_named_twenty_times_of_twenty(cluster: Cluster, cores: float) -> None:
    for at in range(20):
        name = FOUR[at % 4]
        found = named(cluster, throttled(cluster, name, cores))
        assert {nodes for nodes, _ in found} == {(name,)}
        assert "stopped_cores" in {code for _, code in found}


@pytest.mark.tier("all")
def test_nothing_is_named_in_a_hundred_healthy_runs(cluster: Cluster) -> None:
    assert [named(cluster, nullcontext(), "/tmp") for _ in range(100)] == [[]] * 100


@pytest.mark.tier("all")
def test_no_collective_is_named_in_a_hundred_healthy_runs(cluster: Cluster) -> None:
    need_modules("torch")
    found = [check(cluster, FOUR, collective_step.step()).faults for _ in range(100)]
    assert found == [()] * 100
