"""Where the nodes of a round can reach its first one: what was seen to work at the start first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dsrun.launcher.features.elastic.runner_node_directory import MasterAddresses
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
    addresses = MasterAddresses()
    addresses.on_start(first, master, given)
    return addresses


def test_the_first_of_the_start_is_reached_where_it_was() -> None:
    one, _ = nodes("a", "b")
    assert job(one, "a").addresses(one) == ("a", "10.0.0.0", "fd00::0", "own0")
    assert job(one, "own0").addresses(one) == ("own0", "a", "10.0.0.0", "fd00::0")


def test_where_an_address_has_worked_addresses_come_before_names() -> None:
    one, two, _ = nodes("a", "b", "c")
    known = job(one, "fd00::0")
    assert known.addresses(one) == ("fd00::0", "10.0.0.0", "a", "own0")
    assert known.addresses(two) == ("10.0.0.1", "fd00::1", "b", "own1")


def test_where_a_name_has_worked_names_come_first() -> None:
    one, two, _ = nodes("a", "b", "c")
    assert job(one, "a").addresses(two) == ("b", "10.0.0.1", "fd00::1", "own1")


def test_what_the_user_has_given_is_the_address_of_that_node_alone() -> None:
    one, two, _ = nodes("a", "b", "c")
    known = job(one, "gate", "gate")
    assert known.addresses(one) == ("gate",)
    assert known.addresses(two) == ("b", "10.0.0.1", "fd00::1", "own1")


def test_a_loopback_is_no_address_for_others() -> None:
    one, _ = nodes("a", "b")
    assert job(one, "127.0.0.1").addresses(one) == ("a", "10.0.0.0", "fd00::0", "own0")


def test_a_node_alone_uses_its_loopback_unless_the_user_has_given_an_address() -> None:
    one, two = nodes("a", "b")
    assert job(one, "a").alone(one) == "127.0.0.1"
    given = job(one, "gate", "gate")
    assert (given.alone(one), given.alone(two)) == ("gate", "127.0.0.1")


def test_the_addresses_of_another_node_need_no_hello_of_the_first() -> None:
    one, two = nodes("a", "b")
    one.hello = None
    assert job(one, "a").addresses(two) == ("b", "10.0.0.1", "fd00::1", "own1")
