"""Which memory a worker is bound to, and which rules are not possible."""

import pytest

from dsrun.launcher.features.binding.node_plan import plan
from dsrun.launcher.specs.policies import BindingPolicy

from ...support import machines
from ...support.bindings import written
from ...support.machines import Machine, known


@pytest.mark.parametrize(
    ("machine", "seats", "asked", "rules"),
    [
        ("interleaved", [0, 1], "auto", ["bind 0", "bind 1"]),
        ("interleaved", [0, 1], "bind", ["bind 0", "bind 1"]),
        ("interleaved", [0, 1], "preferred", ["preferred 0", "preferred 1"]),
        ("interleaved", [0, 1], "none", ["", ""]),
        ("interleaved", [None], "interleave", ["interleave 0-1"]),
        ("clusters", [None, None], "preferred", ["preferred 0,2", "preferred 1,3"]),
        ("clusters", [None, None], "interleave", ["interleave 0,2", "interleave 1,3"]),
        ("fake", [0, 3], "interleave", ["interleave 0,2", "interleave 1,3"]),
        # A policy given by name is for the node's own memory.
        ("xeon_max", [0, 7], "bind", ["bind 0", "bind 7"]),
        ("xeon_max", [0, 7], "auto", ["preferred 8", "preferred 15"]),
        # Only node 0 has faster memory that may be used.
        (
            machines.XEON_MAX._replace(mems="0-8"),
            [None, None],
            "auto",
            ["bind 0-3", "bind 4-7"],
        ),
        # Node 1's memory may not be used, so cores there get no rule.
        ("one_nodes_memory", [0, 1, 3], "auto", ["bind 0", "", "bind 3"]),
    ],
)
def test_memory_rules(
    machine: str | Machine, seats: list[int | None], asked: str, rules: list[str]
) -> None:
    made = plan(known(machine), seats, BindingPolicy("core", memory=asked))
    assert [row[2] for row in written(made)] == rules
    assert not [note for note in made.notes if "memory" in note]


@pytest.mark.parametrize(
    ("name", "seats", "asked", "why"),
    [
        ("one_socket", [0], "bind", "not set: fewer than two NUMA nodes here have memory"),
        ("interleaved", [None], "bind", "not set for cores on all NUMA nodes"),
        ("interleaved", [0], "interleave", "not set for cores on one NUMA node"),
        (
            "memoryless",
            [1],
            "bind",
            "not set for cores on a NUMA node whose memory may not be used",
        ),
    ],
)
def test_a_rule_that_cannot_be_is_told(
    name: str, seats: list[int | None], asked: str, why: str
) -> None:
    made = plan(known(name), seats, BindingPolicy("core", memory=asked))
    assert [row[2] for row in written(made)] == [""]
    assert f"--bind_memory {asked}: {why}" in made.notes
