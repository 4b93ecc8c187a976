"""The runs of one role, one after another, on nodes that a test plays."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, cast

import pytest

from dsrun.launcher.common.errors import SWEPT
from dsrun.launcher.control import frames, messages, round_messages
from dsrun.launcher.features.roles.runner_console import RoleConsole
from dsrun.launcher.features.roles.runner_run import RoleRun
from dsrun.launcher.head.run.run import RunOverrides
from dsrun.launcher.head.run.run_start import NO_DEVICES
from dsrun.launcher.specs.policies import ElasticPolicy, WorkerPolicy

from ...support.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


class Played:
    """A role on all nodes of a fleet, and what it has told."""

    def __init__(self, fleet: FakeFleet, **spec: Any) -> None:
        self.fleet = fleet
        self.told: list[Any] = []
        news: Any = Recorder(self.told)
        self.lefts = 0
        shared: Any = fleet.console
        shared.flush = lambda then: then()
        shared.still_shows = lambda _lines: False
        console = cast("Any", RoleConsole(shared, "server", 0))
        job = fleet.spec(held=True, role="server", **spec)
        args = news, lambda _run: None, self._left, RunOverrides(greeting=bytes)
        self.role = RoleRun(job, fleet.fleet, console, *args)

    def _left(self) -> None:
        self.lefts += 1

    def prepare(self) -> None:
        self.role.prepare()
        self.fleet.step()
        assert self.role.view is not None
        self.fleet.ready(self.role.view, accelerator="cpu")

    def start(self) -> None:
        self.prepare()
        self.role.start()
        self.fleet.step()
        for node in ("n0", "n1"):
            self.fleet.node(node).beats()
            self.fleet.step()
        self.fleet.up("n0", 0, 1)
        self.fleet.up("n1", 2, 3)

    def names(self) -> list[str]:
        return [name for name, *_ in self.told]


@pytest.fixture
def role(fleet_of: FleetOf) -> Played:
    return Played(fleet_of(shares=True))


def test_workers_are_not_started_before_they_may(role: Played) -> None:
    role.prepare()
    assert role.told == [("prepared", "server")]
    assert not role.fleet.node("n0").got(frames.START)()
    role.role.start()
    role.fleet.step()
    assert role.fleet.node("n0").got(frames.START)()


def test_all_workers_have_to_run(role: Played) -> None:
    role.prepare()
    role.role.start()
    role.fleet.step()
    role.fleet.up("n0", 0, 1)
    assert role.names() == ["prepared"]
    role.fleet.up("n1", 2, 3)
    assert role.names() == ["prepared", "started"]


def test_a_clean_end(role: Played) -> None:
    role.start()
    assert role.role.view is not None
    role.fleet.end_well(role.role.view)
    role.fleet.step()
    assert role.told[-1] == ("ended", "server", 0)
    assert (role.lefts, role.role.leaving) == (1, 0)
    assert role.fleet.fleet.nodes[0].on_event is None


def test_a_failure_is_told_before_the_end(role: Played) -> None:
    role.start()
    role.fleet.node("n0").exits(0, 7)
    role.fleet.step()
    assert role.told[-1] == ("failing", "server")
    role.fleet.node("n0").exits(1, -15, told=True)
    role.fleet.node("n0").done()
    role.fleet.node("n1").stops(2, 3)
    role.fleet.step()
    assert role.told[-1] == ("ended", "server", 7)
    assert role.names().count("failing") == 1


def test_a_stop_that_was_asked_for_is_no_failure(role: Played) -> None:
    role.start()
    role.role.stop(signal.SIGTERM)
    role.fleet.step()
    assert role.role.unfinished == ["n0", "n1"]
    role.fleet.node("n0").stops(0, 1)
    role.fleet.node("n1").stops(2, 3)
    role.fleet.step()
    assert role.names() == ["prepared", "started", "ended"]
    assert role.told[-1] == ("ended", "server", 0)
    assert role.role.unfinished == []


def test_devices_are_missed_once(fleet_of: FleetOf) -> None:
    role = Played(fleet_of(shares=True), workers=WorkerPolicy(expects_devices=True))
    for _ in range(2):
        role.start()
        role.role.stop(signal.SIGTERM)
        role.fleet.step()
        role.fleet.node("n0").stops(0, 1)
        role.fleet.node("n1").stops(2, 3)
        role.fleet.step()
    assert role.fleet.said().count(f"server: {NO_DEVICES}") == 1


def test_a_role_that_waits_is_left(role: Played) -> None:
    role.prepare()
    role.role.stop(signal.SIGINT, why="")
    role.fleet.step()
    assert role.told[-1] == ("ended", "server", 128 + signal.SIGINT)
    assert role.fleet.node("n0").got(frames.STOP)()  # to release its ports


def test_a_node_that_is_lost_in_the_moment_of_the_start_is_noticed(role: Played) -> None:
    """Who watches for losses before the start is told a little later."""
    role.prepare()
    role.fleet.fleet.nodes[1].close("broken pipe")
    role.role.start()
    role.fleet.step()
    assert role.told[-1] == ("ended", "server", 69)
    assert "lost n1 before the start: broken pipe" in str(role.role.ending.error)  # type: ignore[union-attr]


def test_a_node_that_is_lost_while_it_prepares_is_noticed(role: Played) -> None:
    role.start()
    assert role.role.view is not None
    role.fleet.end_well(role.role.view)
    role.fleet.step()
    role.role.prepare()
    role.fleet.step()
    role.fleet.node("n1").leaves()
    role.fleet.go(1.0)
    assert role.told[-1] == ("ended", "server", 69)


def test_a_connection_that_is_another_roles_by_now_is_left_alone(role: Played) -> None:
    role.prepare()
    taken = role.fleet.fleet.nodes[1]
    role.fleet.fleet.lend_more(taken, lambda _event: None)
    role.role.stop(signal.SIGTERM)
    role.fleet.step()
    assert role.fleet.node("n0").got(frames.STOP)()
    assert not role.fleet.node("n1").got(frames.STOP)()


def test_workers_of_a_silent_node_end_before_others_take_their_place(role: Played) -> None:
    """It misses its runner when that misses it, and then gives them their grace."""
    role.start()
    run = role.role.view
    assert run is not None
    role.fleet.go(run.spec.supervision.heartbeat_timeout + 2.0, silent=["n1"])
    role.fleet.node("n0").stops(0, 1)
    role.fleet.step()
    assert role.names()[-1] == "ended"
    free = role.role._free_at - role.fleet.clock.now
    grace, lease = run.spec.supervision.grace, run.spec.supervision.heartbeat_timeout
    assert 0.9 * grace < free <= grace + lease / 8
    role.role.prepare()
    role.fleet.step()
    role.fleet.ready(role.role.view, accelerator="cpu")
    assert role.names()[-1] == "ended"
    assert any("until its workers on lost nodes have exited" in line for line in role.fleet.said())
    role.fleet.go(free + 0.1)
    assert role.names()[-1] == "prepared"


def test_workers_of_a_node_that_leaves_as_announced_end_at_once(role: Played) -> None:
    """Its connection is reset, as it has not read all that was sent to it."""
    role.start()
    node = role.fleet.node("n1")
    node.stops_reading()
    node.notes("its guard was killed", signal.SIGKILL)
    role.fleet.step()
    node.leaves()
    role.fleet.node("n0").stops(0, 1)
    role.fleet.go(1.0)
    assert role.names()[-1] == "ended"
    assert role.role._free_at <= role.fleet.clock.now


def test_a_lost_node_is_reached_again_for_the_next_run(role: Played) -> None:
    role.start()
    role.fleet.node("n1").leaves()
    role.fleet.node("n1").ends(f"the node launcher was killed by SIGKILL; {SWEPT}", 0.1)
    role.fleet.node("n0").stops(0, 1)
    role.fleet.go(1.0)
    assert role.told[-1] == ("ended", "server", 75)
    assert len(role.fleet.backend.made) == 2
    role.start()
    assert len(role.fleet.backend.made) == 3
    assert role.names()[-2:] == ["prepared", "started"]


def test_workers_that_were_left_behind_end_with_their_connection(role: Played) -> None:
    role.start()
    role.role.abandon()
    role.fleet.step()
    assert role.names()[-1] == "ended"
    assert not role.fleet.fleet.nodes[0].connected


def test_places_are_told_once(role: Played) -> None:
    role.prepare()
    role.role.publish(frames.pack(frames.PEERS, b"{}"))
    role.fleet.step()
    assert not role.fleet.node("n0").got(frames.PEERS)()
    for _ in range(2):
        role.role.publish(frames.pack(frames.PEERS, b"{}"), starts=True)
    role.fleet.step()
    assert role.fleet.node("n1").got(frames.PEERS)()
    assert not role.fleet.node("n1").got(frames.PEERS, times=2)()


def test_an_elastic_role_has_its_nodes_back(fleet_of: FleetOf) -> None:
    played = Played(fleet_of(shares=True), elastic=ElasticPolicy(1, 2, 3))
    played.prepare()
    assert all(node.returns for node in played.fleet.fleet.nodes.values())
    played.role.stop(signal.SIGTERM)
    played.fleet.step()
    assert not any(node.returns for node in played.fleet.fleet.nodes.values())


def test_an_elastic_role_that_ends_well_has_not_failed(fleet_of: FleetOf) -> None:
    """Its run stops its nodes, as no other round follows."""
    played = Played(fleet_of(shares=True), elastic=ElasticPolicy(1, 2, 3))
    played.prepare()
    played.role.start()
    nodes = played.fleet.nodes("n0", "n1")
    for node in nodes:
        node.joins(4000)
    played.fleet.step()
    nodes[1].reaches()
    played.fleet.step()
    for node, ranks in zip(nodes, ((0, 1), (2, 3)), strict=True):
        assert node.got(frames.ROUND)()
        played.fleet.up(node.name, *ranks)
        for rank in ranks:
            node.exits(rank, 0)
        node.says(messages.pack(frames.FINISHED, round_messages.Finished(1)))
    played.fleet.step()
    for node in nodes:
        node.done()
    played.fleet.step()
    assert played.names() == ["prepared", "started", "ended"]
    assert played.told[-1] == ("ended", "server", 0)


def test_nobody_watches_for_early_losses_after_the_start(role: Played) -> None:
    def watches() -> list[int]:
        return [len(role.fleet.fleet.nodes[number].on_close) for number in (0, 1)]

    before = watches()
    role.prepare()
    assert watches() != before
    role.role.start()
    assert watches() == before
