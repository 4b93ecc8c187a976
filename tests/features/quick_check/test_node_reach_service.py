"""REACH as a service: since when, and for how long; `test_node_reach` plays calls."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.reach_messages import Reach
from dsrun.launcher.features.quick_check.node_reach_service import Reaching

from ...support.services import service_context

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN = {"GLOO_SOCKET_IFNAME": "own"}
REQUEST = messages.pack(frames.REACH, Reach(1, (), {"A": "b"}))[5:]


@pytest.fixture
def reaching() -> Iterator[Any]:
    """Make services, which are closed in the end."""
    made: list[Reaching] = []

    def make(**fields: Any) -> Reaching:
        made.append(Reaching(service_context(base={**OWN}, **fields)))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("elastic", [False, True])
def test_other_nodes_may_try_this_one_until_its_workers_start(reaching: Any, elastic: bool) -> None:
    """Or to the end, where nodes may still come."""
    one = reaching(elastic=elastic)
    network = one.hello_fields().get("network")
    here = "127.0.0.1", network.port
    socket.create_connection(here).close()
    one.store_opened()
    if elastic:
        socket.create_connection(here).close()
        one.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(here)


def test_nobody_tries_a_node_with_problems(reaching: Any) -> None:
    one = reaching(usable=False)
    assert one.hello_fields() == {}
    one.store_opened()
    with pytest.raises(frames.BadFrame, match="REACH without its announcement in JOB"):
        one.receive(REQUEST)


def test_without_a_port_nobody_tries(reaching: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(24, "too many open files")

    monkeypatch.setattr("dsrun.launcher.features.quick_check.node_reach.any_address", full)
    assert reaching().hello_fields() == {}


def test_variables_for_the_workers_are_kept(reaching: Any) -> None:
    one = reaching()
    one.hello_fields()
    one.receive(REQUEST)
    assert one.context.setup.base == {**OWN, "A": "b"}
