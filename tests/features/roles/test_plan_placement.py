"""On which nodes and slots roles run."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.roles.plan_placement import place, unused, wanted
from dsrun.launcher.features.roles.plan_table import RoleTable
from dsrun.launcher.resources.hostfile import parse_hosts

from .written import table

Placed = dict[str, dict[str, tuple[int | str, ...] | None]]

FOUR = "h[1-4]:8"
ALL = tuple(range(8))


def role(name: str, **values: Any) -> RoleTable:
    return table(name, **values)


def placed(hosts: str, *tables: RoleTable, aliases: tuple[str, ...] = ()) -> Placed:
    places = [wanted(one, one.values.get("num_gpus")) for one in tables]
    found = place(places, parse_hosts(hosts), "--host", aliases)
    return {name: {host.name: host.slots for host in some} for name, some in found.items()}


def fault(hosts: str, *tables: RoleTable) -> str:
    with pytest.raises(UsageError) as caught:
        placed(hosts, *tables)
    return str(caught.value)


def test_roles_take_the_first_free_nodes_in_their_order() -> None:
    found = placed(FOUR, role("a", num_nodes=2), role("b", num_nodes=1), role("c", num_nodes=1))
    assert found == {"a": {"h1": ALL, "h2": ALL}, "b": {"h3": ALL}, "c": {"h4": ALL}}


def test_roles_with_hosts_are_placed_before_others() -> None:
    found = placed(FOUR, role("a", num_nodes=2), role("b", host="h2,h1"))
    assert found == {"a": {"h3": ALL, "h4": ALL}, "b": {"h2": ALL, "h1": ALL}}
    assert list(found["b"]) == ["h2", "h1"]


def test_parts_of_nodes() -> None:
    found = placed(
        "h1:8,h2:8",
        role("a", num_nodes=1, slots="0-3"),
        role("b", num_nodes=1),
        role("c", num_nodes=1, slots="4-5"),
        role("d", num_nodes=1, slots="2"),
    )
    assert found == {
        "a": {"h1": (0, 1, 2, 3)}, "b": {"h2": ALL}, "c": {"h1": (4, 5)}, "d": {"h1": (6, 7)}
    }  # fmt: skip


def test_a_part_goes_where_its_slots_are_free() -> None:
    parts = [role(name, num_nodes=1, slots="0-3") for name in ("a", "b")]
    assert placed("h1:8,h2:8", *parts) == {
        "a": {"h1": (0, 1, 2, 3)},
        "b": {"h2": (0, 1, 2, 3)},
    }


def test_hosts_may_have_slots_of_their_own() -> None:
    found = placed(FOUR, role("a", host="h1:0-3,h2:2"), role("b", host="h1:4+6"))
    assert found == {"a": {"h1": (0, 1, 2, 3), "h2": (0, 1)}, "b": {"h1": (4, 6)}}


def test_workers_and_their_devices() -> None:
    assert placed(FOUR, role("a", num_nodes=1, num_gpus=2)) == {"a": {"h1": (0, 1)}}
    four = {"a": {"h1": ("0+1+2+3", "4+5+6+7")}}
    assert placed(FOUR, role("a", num_nodes=1, devices=4)) == four
    found = placed(FOUR, role("a", num_nodes=1, devices=3, num_gpus=2))
    assert found == {"a": {"h1": ("0+1+2", "3+4+5")}}
    found = placed(FOUR, role("a", num_nodes=1, devices=2, slots="1,3,5,7"))
    assert found == {"a": {"h1": ("1+3", "5+7")}}


def test_hosts_are_uneven() -> None:
    found = placed("h1:8,h2:2,h3:1", role("a", num_nodes=3))
    assert found == {"a": {"h1": ALL, "h2": (0, 1), "h3": (0,)}}
    found = placed("h1:8,h2:2", role("a", num_nodes=2, devices=2))
    assert found == {"a": {"h1": ("0+1", "2+3", "4+5", "6+7"), "h2": ("0+1",)}}


def test_a_role_beside_another_has_its_nodes_and_devices() -> None:
    found = placed(
        FOUR,
        role("server", beside="trainer", devices=4),
        role("trainer", num_nodes=2),
        role("judge", beside="server", num_nodes=1, num_gpus=1),
    )
    groups = ("0+1+2+3", "4+5+6+7")
    assert found == {
        "server": {"h1": groups, "h2": groups},
        "trainer": {"h1": ALL, "h2": ALL},
        "judge": {"h1": (0,)},
    }


def test_a_role_beside_another_may_have_other_slots() -> None:
    trainer = role("trainer", num_nodes=2, num_gpus=6)
    found = placed(FOUR, trainer, role("server", beside="trainer", slots="6-7"))
    assert found["server"] == {"h1": (6, 7), "h2": (6, 7)}
    found = placed(FOUR, trainer, role("server", beside="trainer", num_nodes=1, slots="1"))
    assert found["server"] == {"h1": (6,)}


def test_a_helper_has_no_device() -> None:
    trainer = role("trainer", num_nodes=2)
    found = placed(FOUR, trainer, role("helper", beside="trainer", slots="0", num_gpus=2))
    assert found["helper"] == {"h1": ("none", "none"), "h2": ("none", "none")}
    found = placed(FOUR, role("helper", host="h4", slots="0"), role("a", num_nodes=4))
    assert found["helper"] == {"h4": ("none",)}
    found = placed(FOUR, trainer, role("a", beside="trainer", slots="0"), role("b", beside="a"))
    assert found["b"] == {"h1": ("none",), "h2": ("none",)}


def test_slots_that_are_not_known() -> None:
    assert placed("h1,h2", role("a", num_nodes=2)) == {"a": {"h1": None, "h2": None}}
    assert placed("h1", role("a", num_nodes=1, num_gpus=2)) == {"a": {"h1": (0, 1)}}
    assert placed("h1", role("a", num_nodes=1, num_gpus=1, devices=2)) == {"a": {"h1": ("0+1",)}}
    found = placed("h1", role("a", num_nodes=1, slots="0-1"), role("b", num_nodes=1, slots="2"))
    assert found == {"a": {"h1": (0, 1)}, "b": {"h1": (2, 3)}}
    found = placed("h1", role("a", num_nodes=1, num_gpus=2), role("b", beside="a", slots="2-3"))
    assert found == {"a": {"h1": (0, 1)}, "b": {"h1": (2, 3)}}
    found = placed("h1", role("a", num_nodes=1), role("b", beside="a"))
    assert found == {"a": {"h1": None}, "b": {"h1": None}}


def test_this_machine_has_several_names() -> None:
    here = ("localhost", "me", "127.0.0.1")
    found = placed("localhost:8", role("a", host="me"), aliases=here)
    assert found == {"a": {"localhost": ALL}}


def test_device_ids() -> None:
    found = placed("h1:GPU-aa+GPU-bb", role("a", num_nodes=1, devices=2))
    assert found == {"a": {"h1": ("GPU-aa+GPU-bb",)}}


def test_nodes_without_a_role() -> None:
    places = [wanted(role("a", num_nodes=2), None)]
    hosts = parse_hosts(FOUR)
    assert unused(hosts, place(places, hosts, "--host")) == ["h3", "h4"]


A = role("a", num_nodes=1)


@pytest.mark.parametrize(
    ("hosts", "tables", "expected"),
    [
        (FOUR, [role("a")], "f:a: a role without nodes; give it nodes = N, hosts or beside"),
        (FOUR, [role("a", num_nodes=0)], "f:num_nodes: expected 1 or more, not 0"),
        (FOUR, [role("a", num_nodes=1, host="h1")], "f:host: not with nodes; give one of them"),
        (FOUR, [A, role("b", beside="a", host="h1")], "f:host: not with beside; give one of them"),
        (FOUR, [role("a", num_nodes=5)], "f:num_nodes: 5 wanted, 4 nodes free (--host has 4 nodes"),
        (
            "h1:8,h2:8",
            [A, role("b", num_nodes=2)],
            "f:num_nodes: 2 wanted, 1 node free (--host has 2 nodes; h1 is a node of a;",
        ),
        (FOUR, [role("a", host="h5")], "f:host: no host 'h5' (--host has h1, h2, h3, h4)"),
        (FOUR, [role("a", host="me@h1")], "f:host: names hosts of the job, without a user"),
        (FOUR, [role("a", host="h1,,")], "f:host: "),
        (FOUR, [role("a", host="h1:2", slots="3")], "f:slots: the hosts already have slots"),
        (FOUR, [role("a", num_nodes=1, slots="x")], "f:slots: expected a slot such as 2"),
        (
            FOUR,
            [role("a", num_nodes=1, slots="6-8")],
            "f:num_nodes: 1 wanted, no node free (--host",
        ),
        (FOUR, [role("a", host="h1", slots="6-8")], "f:slots: no slot 8 on h1 (it has 0-7)"),
        (FOUR, [role("a", host="h1", slots="9")], "f:slots: 9 wanted, 8 free on h1"),
        (FOUR, [role("a", num_nodes=1, slots="0")], "f:slots: 0 is for a helper on named nodes"),
        (FOUR, [role("a", host="h1", slots="0", devices=1)], "f:devices: not with slots 0"),
        (
            FOUR,
            [role("a", host="h1"), role("b", host="h1")],
            "f:host: h1 is a node of a; give a slots, or write beside a",
        ),
        (
            FOUR,
            [role("a", host="h1:0-3"), role("b", host="h1:3-5")],
            "f:host: slot 3 of h1 is used by a, too; to share devices on purpose, use beside a",
        ),
        (
            FOUR,
            [role("a", host="h1:0-3"), role("b", host="h1")],
            "f:host: the slots of h1 belong to a; give slots, too",
        ),
        (
            FOUR,
            [A, role("b", beside="a", slots="2-4")],
            "f:slots: slot 2-4 of h1 is used by a, too; to share devices on purpose, use beside a",
        ),
        (FOUR, [A, role("b", beside="c")], "f:beside: no role c; the others: a"),
        (FOUR, [role("a", beside="a")], "f:beside: a role cannot be beside itself"),
        (
            FOUR,
            [role("a", beside="b"), role("b", beside="a")],
            "f:beside: these roles are beside each other, and none has its own nodes: a, b",
        ),
        (FOUR, [A, role("b", beside="a", num_nodes=2)], "f:num_nodes: a has only 1 node, not 2"),
        (FOUR, [role("a", num_nodes=1, num_gpus=9)], "f:num_gpus: 9 slots wanted on h1, which has"),
        (FOUR, [role("a", num_nodes=1, devices=9)], "f:devices: 9 slots wanted on h1, which has"),
        (FOUR, [role("a", num_nodes=1, devices=3)], "f:devices: the 8 slots of h1 are not a mult"),
        ("h1", [role("a", num_nodes=1, devices=3)], "f:devices: the number of slots of h1 is not"),
        (
            "h1",
            [A, role("b", beside="a", slots="1")],
            "f:slots: the number of slots that a uses on h1 is not known; give a workers = N",
        ),
    ],
)
def test_roles_that_cannot_be_placed(hosts: str, tables: list[RoleTable], expected: str) -> None:
    assert fault(hosts, *tables).startswith(expected)
