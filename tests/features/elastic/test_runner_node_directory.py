"""What the rounds of a run know of its nodes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dsrun.launcher.features.elastic.runner_node_directory import RunNodes
from dsrun.launcher.specs.batch_plan import BatchPlan
from dsrun.launcher.specs.host import Host


def table(batches: BatchPlan | None = None) -> RunNodes:
    """Two nodes of a run, the slots of the second of which nobody knows."""
    hosts = (Host("a", (0, 1)), Host("b"))
    nodes = [SimpleNamespace(name=host.name, node=SimpleNamespace(host=host)) for host in hosts]
    known: Any = nodes
    master: Any = SimpleNamespace(addresses=lambda node: (f"at {node.name}",))
    health: Any = SimpleNamespace(passed=lambda nodes: "b" not in [node.name for node in nodes])
    return RunNodes(known, batches, master, health)


def test_nodes_go_by_their_number() -> None:
    nodes = table()
    assert [nodes.name(number) for number in (0, 1)] == ["a", "b"]
    assert [nodes.slots(number) for number in (0, 1)] == [2, 0]
    assert nodes.addresses(1) == ("at b",)


def test_a_round_may_begin_when_all_of_its_nodes_have_passed() -> None:
    assert [table().may_start(members) for members in ([0], [0, 1])] == [True, False]


def test_without_an_elastic_plan_every_size_is_allowed() -> None:
    assert table().fits(7)
