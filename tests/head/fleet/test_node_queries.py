"""What the runner asks its nodes about their machines: who answers, who does not, who errs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.job_messages import (
    DeviceUsage,
    EndedJob,
    EndJob,
    RankUsage,
    Usage,
)
from dsrun.launcher.head.fleet.node_queries import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

USAGE = Usage(
    *(1.0, 8, 0.5, 100, 50),
    (RankUsage(0, 4000, "R", 1.0, 10, 1),),
    (DeviceUsage(0, "GPU-1", 5, 1, 2),),
)


def asked(fleet: FakeFleet, *names: str) -> list[dict[str, Usage]]:
    """Ask these nodes; return the list that the answer goes to."""
    answers: list[dict[str, Usage]] = []
    nodes = [one for one in fleet.fleet.nodes.values() if one.name in names]
    fleet.fleet.node_queries.ask_usage(
        nodes, lambda used: answers.append({node.name: one for node, one in used.items()})
    )
    fleet.step()
    return answers


def answers(fleet: FakeFleet, *names: str) -> None:
    for name in names:
        fleet.node(name).says(messages.pack(frames.USAGE, USAGE))
    fleet.step()


def test_all_nodes_answer(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1", "n2")
    got = asked(fleet, "n0", "n1")
    assert [fleet.kinds(name) for name in ("n0", "n1", "n2")] == [["USAGE_ASK"], ["USAGE_ASK"], []]
    answers(fleet, "n1")
    assert got == []
    answers(fleet, "n0")
    assert got == [{"n0": USAGE, "n1": USAGE}]
    fleet.go(PATIENCE + 1)
    assert len(got) == 1


def test_who_is_late_is_left_out_and_may_answer_later(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1")
    got = asked(fleet, "n0", "n1")
    answers(fleet, "n0")
    fleet.go(PATIENCE)
    assert got == [{"n0": USAGE}]
    again = asked(fleet, "n0", "n1")
    answers(fleet, "n1", "n1", "n0")
    assert again == [{"n0": USAGE, "n1": USAGE}]
    assert fleet.node("n1").open


def test_two_may_ask_at_a_time(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    one, other = asked(fleet, "n0"), asked(fleet, "n0")
    answers(fleet, "n0", "n0")
    assert [one, other] == [[{"n0": USAGE}], [{"n0": USAGE}]]


def test_without_connected_nodes_the_answer_is_empty(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", connect=False)
    got = asked(fleet, "n0")
    fleet.go(0.5)
    assert got == [{}]


def test_who_drops_a_question_gets_no_answer(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    got: list[Any] = []
    question = fleet.fleet.node_queries.ask_usage(list(fleet.fleet.nodes.values()), got.append)
    question.drop()
    question.drop()
    answers(fleet, "n0")
    fleet.go(PATIENCE + 1)
    assert got == []


def test_a_node_that_was_not_asked_is_lost(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1")
    assert fleet.fleet.node_queries is fleet.fleet.node_queries
    fleet.node("n0").says(messages.pack(frames.USAGE, USAGE))
    fleet.node("n1").says(messages.pack(frames.ENDED_JOB, EndedJob((), ())))
    fleet.step()
    lost = [one.lost for one in fleet.fleet.nodes.values()]
    assert ["was not requested" in lost[0], "no end of a job" in lost[1]] == [True, True]


def test_a_job_is_ended_on_a_node(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    got: list[Any] = []
    (node,) = fleet.fleet.nodes.values()
    order = EndJob("job", 15, 3.0)

    def ended(_node: Any, outcome: EndedJob) -> None:
        got.append(outcome)

    fleet.fleet.node_queries.end_job(node, order, ended)
    assert fleet.news("n0") == [["END_JOB", {"job_id": "job", "number": 15, "grace": 3.0}]]
    fleet.node("n0").says(messages.pack(frames.ENDED_JOB, EndedJob(("pid 7",), ())))
    fleet.step()
    assert got == [EndedJob(("pid 7",), ())]
