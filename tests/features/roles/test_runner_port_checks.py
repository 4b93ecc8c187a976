"""Nodes are asked who listens on the ports of a role; a test plays the nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.role_messages import Ports
from dsrun.launcher.features.roles.runner_port_checks import PortChecks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


class Asked:
    """The checks of a fleet, and which have been answered."""

    def __init__(self, fleet: FakeFleet) -> None:
        self.fleet, self.checks = fleet, PortChecks(fleet.fleet)
        self.done: list[str] = []

    def ask(self, name: str, *wanted: str) -> Callable[[], None]:
        nodes = list(self.fleet.fleet.nodes.values())
        drop = self.checks.ask(nodes, wanted, lambda: self.done.append(name))
        self.fleet.step()
        return drop

    def answers(self, host: str, number: int) -> None:
        self.fleet.node(host).says(messages.pack(frames.PORTS, Ports(number)))
        self.fleet.step()


@pytest.fixture
def asked(fleet_of: FleetOf) -> Asked:
    return Asked(fleet_of())


def test_all_nodes_have_to_answer(asked: Asked) -> None:
    asked.ask("first", "http")
    questions = [
        [json.loads(body) for kind, body in node.received if kind == frames.PORTS_ASK]
        for node in asked.fleet.nodes()
    ]
    assert questions == [[{"id": 1, "wanted": ["http"]}]] * 2
    asked.answers("n0", 1)
    asked.answers("n0", 1)
    assert asked.done == []
    asked.answers("n1", 1)
    assert asked.done == ["first"]


def test_answers_to_other_questions_do_not_count(asked: Asked) -> None:
    drop = asked.ask("first")
    asked.ask("second")
    drop()
    for host in ("n0", "n1"):
        for number in (1, 7):
            asked.answers(host, number)
    assert asked.done == []
    for host in ("n0", "n1"):
        asked.answers(host, 2)
    assert asked.done == ["second"]
    drop()


def test_what_is_no_answer_ends_the_line(asked: Asked) -> None:
    asked.ask("first")
    asked.fleet.node("n0").says(frames.pack(frames.PORTS, b"[" * 9000))
    asked.fleet.step()
    assert not asked.fleet.fleet.nodes[0].connected
