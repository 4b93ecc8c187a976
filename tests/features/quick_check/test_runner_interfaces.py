"""Histories of starts in which nodes try each other's addresses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.backends.events import SessionEnded
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.reach_messages import Interface, Network, Reached
from dsrun.launcher.features.elastic.runner_admission import PAUSES
from dsrun.launcher.features.quick_check.runner_interfaces import PATIENCE
from dsrun.launcher.head.run import run_start
from dsrun.launcher.specs.policies import CheckPolicy

from ...support.elastic_run import Job
from ...support.fake_fleet import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.run.run import Run

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

NO = "no answer"


def network(name: str, gloo: str = "10.0.0.{}") -> Network:
    number = name[1:]
    cards = (Interface("eth0", f"10.0.0.{number}"), Interface("eth1", f"10.1.0.{number}"))
    return Network(4000 + int(number), f"token-{name}", gloo.format(number), (), cards)


def greet(job: FakeFleet, gloo: str = "10.0.0.{}", *names: str) -> None:
    """Have nodes say HELLO with their interfaces, and reach the master."""
    for node in job.nodes(*names):
        port = 29500 if node.name == "n0" else None
        node.hello(port=port, network=network(node.name, gloo))
    job.step()
    for node in job.nodes(*names):
        if node.got(frames.PROBE)():
            node.reaches()
    job.step()


def requests(job: FakeFleet, name: str) -> list[dict[str, Any]]:
    """Return the bodies of what a node has been sent as REACH."""
    return [json.loads(body) for kind, body in job.node(name).received if kind == frames.REACH]


def answer(job: FakeFleet, name: str, reaches: Callable[[str], bool]) -> None:
    """Have a node answer its last request; `reaches` is given addresses."""
    last = requests(job, name)[-1]
    verdicts = tuple("" if reaches(address) else NO for address, _, _ in last["dials"])
    job.node(name).says(messages.pack(frames.REACHED, Reached(last["id"], verdicts)))
    job.step()


def answer_all(job: FakeFleet, reaches: Callable[[str], bool] = lambda _address: True) -> None:
    for name in job.hosts:
        answer(job, name, reaches)


def started(run: Run, job: FakeFleet) -> bool:
    job.step()
    return run.state.started


def test_nodes_are_asked_to_tell_unless_checks_are_off(fleet_of: FleetOf) -> None:
    def told(**spec: Any) -> bool:
        job = fleet_of("n0", "n1")
        job.run(**spec)
        ((_, task),) = job.news("n1")
        return bool(task.get("reach"))

    assert told()
    assert not told(checks=CheckPolicy(quick=False))


def test_one_round_trip_beside_that_to_the_master(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    run = job.run()
    greet(job)
    (asked,) = requests(job, "n0")
    assert asked["dials"] == [
        ["10.0.0.1", 4001, "token-n1"],
        ["10.0.0.2", 4002, "token-n2"],
    ]
    assert not started(run, job)
    answer_all(job)
    assert started(run, job)
    assert [len(requests(job, name)) for name in job.hosts] == [1, 1, 1]
    assert [line for line in job.said("warning") if "address" in line] == []


def test_the_master_may_be_the_last_to_be_known(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    for node in job.nodes():
        node.hello(port=29500 if node.name == "n0" else None, network=network(node.name))
    job.step()
    answer_all(job)
    assert not started(run, job)
    job.node("n1").reaches()
    assert started(run, job)


def test_all_addresses_are_tried_if_the_default_fails(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    run = job.run()
    greet(job)
    answer_all(job, lambda address: address != "10.0.0.1")
    assert [len(requests(job, name)[-1]["dials"]) for name in job.hosts] == [2, 4, 2]
    answer_all(job, lambda address: address != "10.0.0.1")
    assert started(run, job)
    variables = {name: requests(job, name)[-1]["variables"] for name in job.hosts}
    assert variables == {"n0": {}, "n1": {"GLOO_SOCKET_IFNAME": "eth1"}, "n2": {}}
    job.node("n0").beats()
    assert job.kinds("n1")[-2:] == ["REACH", "START"]
    (line,) = (one for one in job.said("warning") if "address" in one)
    assert line == (
        "other nodes cannot reach the default network address of n1 (10.0.0.1 of n1: "
        "no answer); set for the workers: GLOO_SOCKET_IFNAME=eth1 on n1"
    )


def test_a_loopback_needs_no_first_trial(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    greet(job, "127.0.1.1")
    answer_all(job)
    assert started(run, job)
    assert requests(job, "n0")[-1]["variables"] == {"GLOO_SOCKET_IFNAME": "eth0"}


def test_a_node_that_nobody_reaches_is_named_and_the_job_starts(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    greet(job)
    for _ in range(2):
        answer_all(job, lambda address: not address.endswith(".1"))
    assert started(run, job)
    (line,) = (one for one in job.said("warning") if "address" in one)
    assert "cannot reach the default network address of n1" in line
    assert "nor any other address there" in line


def test_an_answer_that_does_not_come_is_not_waited_for(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    greet(job)
    answer(job, "n0", bool)
    job.go(PATIENCE - 0.5)
    assert not run.state.started
    job.go(1.0)
    assert started(run, job)
    answer(job, "n1", bool)  # late
    assert not run.state.stopping


def test_without_interfaces_nothing_is_asked(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.ready(run)
    assert run.state.started
    assert requests(job, "n1") == []


def test_one_node_alone_dials_nobody(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.run()
    greet(job, "127.0.1.1")
    assert started(run, job)
    assert requests(job, "n0") == []


def test_a_node_that_fails_meanwhile_ends_the_start(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    greet(job)
    run.handle(run_start.fail_start, run.state.nodes[1], "gone")
    assert refusal(run) == ["n1: gone"]
    job.go(PATIENCE + 1)
    assert not run.state.started


@pytest.mark.parametrize(
    ("number", "verdicts"), [(1, ("",) * 3), (77, ("",)), (2, ("",))], ids=["many", "none", "other"]
)
def test_an_answer_to_no_request_is_not_valid(
    number: int, verdicts: tuple[str, ...], fleet_of: FleetOf
) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    greet(job)
    job.node("n0").says(messages.pack(frames.REACHED, Reached(number, verdicts)))
    job.step()
    (reason,) = refusal(run)
    assert reason.startswith("n0: it sent an invalid frame of kind 55: ")


def test_an_answer_where_nothing_is_examined_is_not_valid(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.node("n1").hello()
    job.node("n1").says(messages.pack(frames.REACHED, Reached(1, ())))
    job.step()
    job.node("n0").hello()
    job.step()
    assert refusal(run)[-1].startswith("n1: it sent an invalid frame of kind 55: ")


# -- nodes that come later ------------------------------------------------------------------------


def back(fleet_of: FleetOf, gloo: str) -> FakeFleet:
    """An elastic job of two nodes that runs on n0; n1 was lost, and says HELLO again."""
    fleet = fleet_of("n0", "n1")
    job = Job(fleet)
    greet(fleet)
    answer_all(fleet)
    for node in fleet.nodes():
        node.beats()
        fleet.step()
    job.join("n0", "n1")
    job.up("n0", "n1")
    fleet.node("n1").leaves()
    fleet.step()
    job.join("n0")
    job.up("n0")
    fleet.go(PAUSES.first + 0.5)
    assert fleet.kinds("n1") == ["JOB"]
    fleet.said()
    fleet.node("n1").hello(port=None, network=network("n1", gloo))
    fleet.step()
    return fleet


def leave(fleet: FakeFleet) -> None:
    """Have the session of n1 end."""
    fleet.node("n1").leaves()
    fleet.step()
    fleet.emit(SessionEnded(1, "gone"))


def test_a_node_that_comes_back_is_dialled_by_those_that_are_there(fleet_of: FleetOf) -> None:
    fleet = back(fleet_of, "10.0.0.{}")
    (asked,) = requests(fleet, "n0")
    assert [address for address, _, _ in asked["dials"]] == ["10.0.0.1"]
    assert fleet.kinds("n1") == [], "it is not taken in before"
    answer(fleet, "n0", bool)
    assert fleet.kinds("n1") == ["START"]
    assert fleet.said("warning") == ["n1 is back"]


def test_one_whose_default_fails_gets_a_variable_for_its_rounds(fleet_of: FleetOf) -> None:
    fleet = back(fleet_of, "127.0.1.1")
    answer(fleet, "n0", lambda address: address != "10.0.0.1")
    (kind, request), start = fleet.news("n1")
    assert (kind, request["variables"]) == ("REACH", {"GLOO_SOCKET_IFNAME": "eth1"})
    assert start[0] == "START"
    line, there = fleet.said("warning")
    assert line.endswith("set for the workers: GLOO_SOCKET_IFNAME=eth1 on n1")
    assert there == "n1 is back"


def test_one_that_is_gone_meanwhile_is_not_taken_in(fleet_of: FleetOf) -> None:
    fleet = back(fleet_of, "10.0.0.{}")
    leave(fleet)
    answer(fleet, "n0", bool)
    assert fleet.said("warning") == []
    fleet.go(3 * PAUSES.first)
    assert fleet.backend.started[1:] == [[1], [1]]
    fleet.node("n1").hello(port=None, network=network("n1"))
    fleet.step()
    answer(fleet, "n0", bool)
    assert fleet.said("warning") == ["n1 is back"]


def test_one_that_is_back_before_the_answers_is_examined_anew(fleet_of: FleetOf) -> None:
    fleet = back(fleet_of, "10.0.0.{}")
    leave(fleet)
    fleet.go(2 * PAUSES.first)
    assert fleet.kinds("n1") == ["JOB"]
    fleet.node("n1").hello(port=None, network=network("n1", "127.0.1.1"))
    fleet.step()
    first, second = requests(fleet, "n0")
    assert len(second["dials"]) == 2
    fleet.node("n0").says(messages.pack(frames.REACHED, Reached(first["id"], ("",))))
    fleet.step()
    assert fleet.kinds("n1") == []
    answer(fleet, "n0", bool)
    assert fleet.kinds("n1") == ["REACH", "START"]


def test_a_node_without_interfaces_is_taken_in_as_it_is(fleet_of: FleetOf) -> None:
    fleet = back(fleet_of, "10.0.0.{}")
    leave(fleet)
    fleet.go(3 * PAUSES.first)
    fleet.node("n1").hello(port=None)
    assert fleet.kinds("n1") == ["JOB", "START"]
