"""The nodes of a hold: which there are, and how lost ones come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import NodeError, UsageError
from dsrun.launcher.control import frames
from dsrun.launcher.features.hold.runner_nodes import LEFT_BEHIND, PAUSES
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Plan, lay_out

from ...support.fake_hold import CHECK

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_hold import FakeHold

    HoldOf = Callable[..., FakeHold]


def plan(*hosts: Host) -> Plan:
    return Plan(lay_out(hosts), CHECK, "ssh", None, None)


def test_hosts_have_the_slots_that_were_found(hold_of: HoldOf) -> None:
    nodes = hold_of(Host("n0"), Host("n1", (4,))).ready().hold.nodes
    assert [(host.name, host.slots) for host in nodes.hosts] == [("n0", (0, 1)), ("n1", (4,))]
    assert [one.name for one in nodes.connections(["n1", "n0"])] == ["n1", "n0"]
    assert nodes.lost("n0") == ""


@pytest.mark.parametrize(
    ("host", "error"),
    [
        (Host("x1", (0,)), "x1: not held by lab, which has n0, n1"),
        (Host("n0", (0, 5)), "n0: no slot 5; it holds 0, 1"),
        (Host("n0"), "n0: no slot none; it holds 0, 1"),
    ],
)
def test_only_slots_that_are_held_can_be_used(hold_of: HoldOf, host: Host, error: str) -> None:
    nodes = hold_of("n0", "n1").ready().hold.nodes
    nodes.check(plan(Host("n0", (1,)), Host("n1", (0, 1))))
    with pytest.raises(UsageError) as refused:
        nodes.check(plan(host))
    assert str(refused.value) == error


def test_a_lost_node_is_named_looked_for_and_back(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1").ready()
    fake.job.said()
    fake.job.node("n1").leaves()
    fake.job.step()
    (line,) = fake.job.said()
    assert line.startswith("lost n1: the connection to its node launcher ended")
    with pytest.raises(NodeError, match=r"n1: .*; looking for it"):
        fake.hold.nodes.check(plan(Host("n1", (0,))))
    fake.hold.nodes.check(plan(Host("n0", (0,))))
    fake.job.go(PAUSES.first)
    assert fake.job.backend.started == [[0, 1], [1]]
    fake.job.node("n1").hello(port=29500, slots=2)
    fake.job.step()
    assert fake.job.said() == ["n1 is back"]
    assert fake.job.kinds("n1") == ["JOB", "STOP"]
    fake.hold.nodes.check(plan(Host("n1", (0,))))


def test_a_node_that_does_not_come_is_tried_again(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1").ready()
    fake.job.node("n1").leaves()
    fake.job.go(PAUSES.first)
    fake.job.node("n1").hello(problems=("no Python at /x",))
    fake.job.step()
    assert fake.hold.nodes.lost("n1") == "no Python at /x"
    fake.job.go(2 * PAUSES.first)
    assert fake.job.backend.started == [[0, 1], [1], [1]]
    fake.job.node("n1").hello(port=29500, slots=1, devices=("0",))
    fake.job.step()
    assert fake.job.said()[-1] == "n1 is back"


def test_a_node_that_returns_with_other_slots(hold_of: HoldOf) -> None:
    fake = hold_of(Host("n0")).ready()
    fake.job.node("n0").leaves()
    fake.job.go(PAUSES.first)
    fake.job.node("n0").hello(slots=1)
    fake.job.step()
    assert fake.job.said()[-2:] == ["n0 is back", "n0 has 1 slot now"]
    assert fake.hold.nodes.hosts[0].slots == (0,)


def test_a_node_with_workers_of_a_run_that_is_over_is_started_anew(hold_of: HoldOf) -> None:
    """A third interrupt ends a run without waiting: its node launchers end what they have."""
    fake = hold_of("n0").ready()
    client = fake.client()
    client.run("a", {"n0": [0, 1]})
    fake.job.ready(fake.run_of("a"))
    assert "START" in fake.job.kinds("n0")
    for _ in range(3):
        client.ask("signal", number=2)
    assert client.wait(1)["code"] == 130
    assert fake.hold.nodes.lost("n0") == LEFT_BEHIND
    fake.job.go(PAUSES.first)
    assert fake.job.node("n0").got(frames.JOB)()


def test_a_hold_that_ends_looks_for_nobody(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1").ready()
    before = len(fake.job.backend.started)
    fake.job.node("n1").leaves()
    fake.job.step()
    fake.hold.nodes.close()
    fake.job.clock.go(2 * PAUSES.longest)
    assert len(fake.job.backend.started) == before
