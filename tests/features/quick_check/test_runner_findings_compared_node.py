"""Values of several nodes: which are odd, and how they are shown."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.quick_check.runner_findings import outliers, shown, size, typical

from ...support.node_facts import GPUS, alike, compared_node


def test_what_most_nodes_have_is_right() -> None:
    nodes = [compared_node("a", script="x"), *alike("b", "c"), compared_node("d", script="y")]
    found = outliers(nodes, lambda one: one.facts.script)
    assert [
        (outlier.nodes, outlier.value, outlier.common, outlier.holders) for outlier in found
    ] == [
        (["a"], "x", "5c", ["b", "c"]),
        (["d"], "y", "5c", ["b", "c"]),
    ]
    assert found[0].words("script") == "script x, but 5c on b, c"


def test_of_as_many_nodes_the_first_is_right() -> None:
    (outlier,) = outliers(
        [compared_node("a"), compared_node("b", script="x")], lambda one: one.facts.script
    )
    assert (outlier.nodes, outlier.common) == (["b"], "5c")


def test_nodes_without_a_value_are_left_out() -> None:
    nodes = [compared_node("a"), compared_node("b", script="")]
    assert outliers(nodes, lambda one: one.facts.script or None) == []
    assert outliers([], lambda one: one.name) == []


def test_the_upper_median() -> None:
    assert typical([3.0, 1.0, 2.0]) == 2.0
    assert typical([1.0, 4.0]) == 4.0


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1 << 20, "1 MiB"),
        (1.5 * (1 << 30), "1.5 GiB"),
        (1000 << 10, "1000 KiB"),
        (5000 << 40, "5000 TiB"),
    ],
)
def test_sizes(count: float, text: str) -> None:
    assert size(count) == text


def test_values_are_not_empty_and_not_long() -> None:
    assert shown("") == "none"
    assert shown("x" * 60) == "x" * 60
    assert shown("x" * 61) == "x" * 57 + "..."


def test_who_has_devices() -> None:
    assert compared_node("a", devices=GPUS).has_gpus
    assert compared_node("a", accelerator="cuda").has_gpus
    assert not compared_node("a", accelerator="cpu").has_gpus
    assert not compared_node("a").has_gpus
