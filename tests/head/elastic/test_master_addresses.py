"""Where the nodes of a round can reach its first one: what was seen to work at the start first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dsrun.launcher.head.elastic.master_addresses import MasterAddresses
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import lay_out


def nodes(*names: str) -> list[Any]:
    """Return nodes of a run, each with two addresses and a name of its own."""
    return [
        SimpleNamespace(
            node=node,
            hello=SimpleNamespace(
                addresses=(f"10.0.0.{node.rank}", f"fd00::{node.rank}"), hostname=f"own{node.rank}"
            ),
        )
        for node in lay_out([Host(name) for name in names])
    ]


def job(first: Any, master: str, given: str | None = None) -> MasterAddresses:
    """Return the addresses of a job that has started with this master."""
    plan = SimpleNamespace(master_addr=given)
    run: Any = SimpleNamespace(staged=SimpleNamespace(first=first), master=master, plan=plan)
    addresses = MasterAddresses(run)
    addresses.on_start()
    return addresses


def test_the_first_of_the_start_is_reached_where_it_was() -> None:
    some = nodes("a", "b")
    assert job(some[0], "a").addresses(some) == ["a", "10.0.0.0", "fd00::0", "own0"]
    assert job(some[0], "own0").addresses(some) == ["own0", "a", "10.0.0.0", "fd00::0"]


def test_where_an_address_has_worked_addresses_come_before_names() -> None:
    some = nodes("a", "b", "c")
    found = job(some[0], "fd00::0")
    assert found.addresses(some) == ["fd00::0", "10.0.0.0", "a", "own0"]
    assert found.addresses(some[1:]) == ["10.0.0.1", "fd00::1", "b", "own1"]


def test_where_a_name_has_worked_names_come_first() -> None:
    some = nodes("a", "b", "c")
    assert job(some[0], "a").addresses(some[1:]) == ["b", "10.0.0.1", "fd00::1", "own1"]


def test_what_the_user_has_given_is_the_place_of_that_node_alone() -> None:
    some = nodes("a", "b", "c")
    found = job(some[0], "gate", "gate")
    assert found.addresses(some) == ["gate"]
    assert found.addresses(some[1:]) == ["b", "10.0.0.1", "fd00::1", "own1"]


def test_a_loopback_is_no_place_for_others() -> None:
    some = nodes("a", "b")
    found = job(some[0], "127.0.0.1")
    assert found.addresses(some[:1]) == ["127.0.0.1"]
    assert found.addresses(some) == ["a", "10.0.0.0", "fd00::0", "own0"]


@pytest.mark.parametrize("master", ["a", "10.0.0.0"])
def test_who_is_alone_meets_nobody(master: str) -> None:
    some = nodes("a", "b")
    assert job(some[0], master).addresses(some[:1]) == [master]


def test_a_first_node_that_has_said_nothing_yet_is_no_address() -> None:
    some = nodes("a", "b")
    some[0].hello = None
    assert job(some[0], "a").addresses(some[1:]) == ["b", "10.0.0.1", "fd00::1", "own1"]
