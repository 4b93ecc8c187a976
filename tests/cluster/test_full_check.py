"""The network step of the full check on virtual hosts with bad cables."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.full_check.runner_network import STEP

from ..support import schemas
from .cable import Cable, cable_between, cable_to, slow_card, slow_link
from .command import CHECKOUT
from .full_checks import check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from .hosts import Cluster

    Bad = Callable[[Cluster], AbstractContextManager[Any]]

THREE, FOUR = ("n1", "n2", "n3"), ("n1", "n2", "n3", "n4")


@contextmanager
def behind(cluster: Cluster, name: str, **how: Any) -> Iterator[None]:
    """A host behind a bad cable."""
    with cable_to(cluster, name) as cable:
        cable.set(**how)
        yield


@contextmanager
def between(cluster: Cluster, one: str, other: str, **how: Any) -> Iterator[None]:
    """A bad cable between two hosts."""
    with cable_between(cluster, one, other) as cable:
        cable.set(**how)
        yield


RATE = "40mbit"
DELAY: dict[str, Any] = {"delay": 0.005}
LOSS: dict[str, Any] = {"loss": 0.03}
OUTGOING: dict[str, Any] = {**LOSS, "only": Cable.FORWARD}

FAULTS: dict[str, tuple[Bad, tuple[str, ...], set[str]]] = {
    "lossy link": (partial(between, one="n1", other="n3", **LOSS), ("n1", "n3"), {"link_loss"}),
    "slow node": (
        partial(slow_card, name="n3", rate=RATE),
        ("n3",),
        {"node_bandwidth", "node_loss"},
    ),
}
"""How it is made, who is named, and as what; a limit of the rate drops packets, too."""

MORE: dict[str, tuple[Bad, tuple[str, ...], set[str]]] = {
    "delayed node": (partial(behind, name="n2", **DELAY), ("n2",), {"node_latency"}),
    "delayed link": (
        partial(between, one="n1", other="n2", **DELAY),
        ("n1", "n2"),
        {"link_latency"},
    ),
    "lossy node": (partial(behind, name="n1", **LOSS), ("n1",), {"node_loss"}),
    "node lossy in one direction": (partial(behind, name="n1", **OUTGOING), ("n1",), {"node_loss"}),
    "link slow in one direction": (
        partial(slow_link, one="n2", other="n3", rate=RATE),
        ("n2", "n3"),
        {"link_bandwidth", "link_loss"},
    ),
}


def named(cluster: Cluster, hosts: tuple[str, ...], bad: Bad) -> list[tuple[tuple[str, ...], str]]:
    """Who is named, and as what."""
    with bad(cluster):
        return [(one.nodes, one.code) for one in check(cluster, hosts, STEP).faults]


@pytest.mark.tier("test")
def test_a_node_behind_a_bad_cable_is_named_by_the_command(
    cluster: Cluster, tmp_path: Path
) -> None:
    """All steps, over ssh, and the pictures."""
    argv = [sys.executable, str(CHECKOUT / "bin" / "dsrun-check"), "--host", ",".join(THREE)]
    words = ["--workdir", "/", "--full", "--json", "--svg", str(tmp_path / "links.svg")]
    with behind(cluster, "n2", **DELAY):
        done = cluster.login.run([*argv, *words], cwd=tmp_path)
    assert done.stderr == ""
    value = json.loads(done.stdout)
    assert schemas.faults("check", value) == []
    assert (value["exit_code"], done.returncode) == (69, 69)
    steps = {one["step"]: one for one in value["full"]}
    (found,) = steps["network"]["faults"]
    assert (found["code"], found["nodes"]) == ("node_latency", ["n2"])
    assert steps["devices"]["faults"] == []
    assert (tmp_path / "links.svg").read_text().startswith("<svg")


@pytest.mark.tier("all")
def test_two_cut_links_are_named_by_the_command_and_nobody_else(
    cluster: Cluster, tmp_path: Path
) -> None:
    argv = [sys.executable, str(CHECKOUT / "bin" / "dsrun-check"), "--host", ",".join(FOUR)]
    with ExitStack() as cables:
        for ends in (("n1", "n2"), ("n3", "n4")):
            cables.enter_context(cable_between(cluster, *ends)).set(loss=1.0)
        done = cluster.login.run([*argv, "--workdir", "/", "--full", "--json"], cwd=tmp_path)
    faults = [one for step in json.loads(done.stdout)["full"] for one in step["faults"]]
    assert sorted((one["code"], one["nodes"]) for one in faults) == [
        ("link_reach", ["n1", "n2"]),
        ("link_reach", ["n3", "n4"]),
    ]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_bad_node_or_link_is_named(cluster: Cluster, fault: str) -> None:
    bad, who, codes = FAULTS[fault]
    ((nodes, code),) = named(cluster, THREE, bad)
    assert nodes == who
    assert code in codes


def test_healthy_nodes_are_not_named(cluster: Cluster) -> None:
    result = check(cluster, FOUR, STEP)
    assert (result.faults, result.notes) == ((), ())
    measured = result.measured["links"]
    assert [min(link["out"], link["back"]) > 1e7 for link in measured] == [True] * 6


@pytest.mark.tier("all")
def test_a_link_that_carries_nothing_is_named(cluster: Cluster) -> None:
    """Only the packets between two hosts are lost."""
    with cable_between(cluster, "n1", "n2") as cable:
        cable.set(loss=1.0)
        result = check(cluster, THREE, STEP)
    ((found),) = result.faults
    assert (found.code, found.nodes) == ("link_reach", ("n1", "n2"))
    assert "timed out" in found.text


@pytest.mark.tier("all")
@pytest.mark.parametrize("fault", [*FAULTS, *MORE])
def test_the_right_one_is_named_twenty_times_of_twenty(cluster: Cluster, fault: str) -> None:
    bad, who, codes = {**FAULTS, **MORE}[fault]
    for _ in range(20):
        ((nodes, code),) = named(cluster, FOUR, bad)
        assert nodes == who
        assert code in codes


@pytest.mark.tier("all")
def test_nothing_is_named_in_a_hundred_healthy_runs(cluster: Cluster) -> None:
    healthy = [named(cluster, FOUR, lambda _cluster: nullcontext()) for _ in range(100)]
    assert healthy == [[]] * 100
