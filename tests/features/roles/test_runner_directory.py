"""The addresses and ports that roles are told of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.role_messages import RolePeers
from dsrun.launcher.features.roles.runner_directory import Directory
from dsrun.launcher.specs.role_words import Peers

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.run.run import Run

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


@pytest.fixture
def run(fleet_of: FleetOf) -> Run:
    """A run on two nodes that are fit."""
    fleet = fleet_of()
    run = fleet.run(job_id="j")
    fleet.ready(run, ports=(7000, 7001))
    return run


def directory(run: Run, *hosts: str) -> Directory:
    made = Directory(hosts or ("n0", "n1", "n2"))
    assert made.update("server", run.state.nodes) == []
    return made


def test_the_first_address_counts_until_others_have_answered(run: Run) -> None:
    known = directory(run)
    candidates = known.places["server"][0].candidates
    assert candidates == ("n0", "10.0.0.1")
    assert known.peers() == {"server": Peers(("n0", "n1"), (7000, 7000))}
    known.prove("server", {"n0": [1], "n1": []})
    assert known.peers() == {"server": Peers(("10.0.0.1", "n1"), (7000, 7000))}


def test_roles_on_one_host_find_each_other_there(run: Run) -> None:
    assert directory(run, "n0").peers()["server"].hosts == ("127.0.0.1", "127.0.0.1")


def test_a_lost_node_is_left_out(run: Run) -> None:
    known = directory(run)
    run.state.nodes[0].lose("gone")
    known.update("server", run.state.nodes)
    assert known.peers()["server"].hosts == ("n1",)


def test_ports_of_an_earlier_start(run: Run) -> None:
    known = directory(run)
    assert known.ports("server") == (("n0", (7000, 7001)), ("n1", (7000, 7001)))
    assert known.ports("unknown") == ()


def test_another_port_is_told(run: Run) -> None:
    known = directory(run)
    hello = run.state.nodes[1].hello
    assert hello is not None
    run.state.nodes[1].hello = hello._replace(ports=(7000, 8001))
    told = known.update("server", run.state.nodes)
    assert told == ["server: its former port on n1 is taken: using 8001 instead of 7001"]


def test_nodes_are_told_all(run: Run) -> None:
    kinds: list[Any] = frames.Decoder().feed(directory(run).frame())
    ((kind, body),) = kinds
    assert kind == frames.PEERS
    assert messages.unpack(RolePeers, body).peers == {"server": Peers(("n0", "n1"), (7000, 7000))}
