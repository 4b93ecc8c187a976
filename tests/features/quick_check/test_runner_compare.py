"""The whole quick check, and what it says of healthy nodes: nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.quick_check.runner_compare import findings, newcomer
from dsrun.launcher.features.quick_check.runner_findings import TABLE, Severity

from ...support.cost import LINEAR, growth
from ...support.node_facts import GPUS, alike, compared_node, facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.features.quick_check.runner_findings import Finding


def test_healthy_nodes() -> None:
    assert findings([]) == []
    assert findings(alike("a")) == findings(alike("a", "b", "c")) == []
    assert findings(alike("a", "b", devices=GPUS, ahead=(0.0, 0.2))) == []


def test_errors_come_first_and_equal_findings_are_one() -> None:
    low = {"limits": {"nofile": 100}}
    nodes = [*alike("a", "b", "c", **low), compared_node("d", **low, script="x")]
    found = findings(nodes)
    assert [(one.code, one.nodes) for one in found] == [
        ("script", ("d",)),
        ("nofile", ("a", "b", "c", "d")),
    ]


def test_a_newcomer_is_the_one_that_is_wrong() -> None:
    (one,) = newcomer(compared_node("b", python="3.12.0"), [compared_node("a")])
    assert (one.code, one.nodes) == ("python", ("b",))
    assert newcomer(compared_node("b"), [compared_node("a", limits={"nofile": 1})]) == []


def test_the_code_may_have_changed_since_the_others_started() -> None:
    (one,) = newcomer(compared_node("b", script="x", files="f2"), [compared_node("a")])
    assert (one.code, one.severity) == ("script", Severity.WARNING)
    assert one.text == "the script is not the same as on a when they started"


def test_facts_that_make_no_sense_raise_nothing() -> None:
    odd = facts(
        versions={"torch": "", "cuda": "\udcff", "cuda_driver": "-1"},
        python="....",
        limits={"nofile": -(1 << 60), "memlock": 0},
        memory=0,
        cpus=-1.0,
        devices=(GPUS[0]._replace(total=0, free=1 << 60, name=""),),
    )
    assert all(
        one.code in TABLE
        for one in findings([*alike("a", "b"), compared_node("c", **odd._asdict())])
    )


def test_thousands_of_nodes_take_linear_time() -> None:
    odd = compared_node("odd", script="x", env={"A": "1"}, versions={"torch": "1"})

    def compare(size: int) -> Sequence[Finding]:
        nodes = alike(*(f"n{at}" for at in range(size)), devices=GPUS, ahead=(0.0, 0.1))
        return findings([*nodes, odd])

    assert growth(compare, 125) < LINEAR
    found = compare(2000)
    assert {one.severity for one in found} == {Severity.ERROR, Severity.WARNING}
