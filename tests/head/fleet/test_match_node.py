"""Which node of the plan a node launcher is that an engine has started."""

from __future__ import annotations

import pytest

from dsrun.launcher.common.network import same_host
from dsrun.launcher.head.fleet.match_node import WrongNode, place
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Node, Plan, by_task, lay_out
from dsrun.launcher.specs.program import Program


def nodes(**slots: int) -> tuple[Node, ...]:
    return lay_out([Host(name.replace("_", "."), tuple(range(n))) for name, n in slots.items()])


def tasks(**slots: int) -> tuple[Node, ...]:
    return by_task(Plan(nodes(**slots), Program("train.py"), "mpich", None, None)).nodes


@pytest.mark.parametrize(
    ("who", "rank"),
    [
        ("n1", 0),
        ("n2", 1),
        ("n9", None),
        ("0@n1", 0),
        ("0@n2", 1),  # Slurm sorts: the name decides
        ("1@n1.cluster", 0),
        ("0@N2", 1),
        ("1@10.0.0.2", 1),  # called otherwise: the number decides
        ("2@n1", None),
        ("x@n1", None),
        ("@n1", None),
        ("-1@n1", None),
        ("\u0663@n1", None),
    ],
)
def test_one_task_a_node(who: str, rank: int | None) -> None:
    found = place(who, nodes(n1=2, n2=3))
    assert (found.rank if found else None) == rank


@pytest.mark.parametrize(("who", "rank"), [("0@n1", 0), ("1@n1", 1), ("2@n2", 2), ("2@alias", 2)])
def test_one_task_a_rank(who: str, rank: int) -> None:
    found = place(who, tasks(n1=2, n2=1))
    assert found is not None
    assert found.rank == rank


def test_a_rank_on_another_host_than_planned() -> None:
    with pytest.raises(WrongNode, match="started task 2 on n1, but the plan has"):
        place("2@n1", tasks(n1=2, n2=2))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("n1", "n1", True),
        ("n1", "N1", True),
        ("N1", "n1.cluster", True),
        ("n1.Cluster", "N1.cluster", True),
        ("fe80::a", "FE80::A", True),
        ("n1", "n1.cluster", True),
        ("n1.cluster", "n1", True),
        ("n1.cluster", "n1.other", False),
        ("n1", "n10", False),
        ("10.0.0.1", "10", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("fe80::1", "fe80::2", False),
    ],
)
def test_names_of_one_host(one: str, other: str, same: bool) -> None:
    assert same_host(one, other) is same
