"""What the runner asks its nodes about their machines: who answers, who does not, who errs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import questions
from dsrun.launcher.control.job_messages import (
    END_JOB,
    USAGE,
    DeviceUsage,
    EndedJob,
    EndJob,
    RankUsage,
    Usage,
    UsageAsk,
)
from dsrun.launcher.head.fleet.node_queries import NEVER, PATIENCE

from ...support.questions import asked as asked_of
from ...support.questions import reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.fleet.node_connection import NodeConnection

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

USED = Usage(
    *(1.0, 8, 0.5, 100, 50),
    (RankUsage(0, 4000, "R", 1.0, 10, 1),),
    (DeviceUsage(0, "GPU-1", 5, 1, 2),),
)


def asked(fleet: FakeFleet, *names: str) -> list[dict[str, Usage]]:
    """Ask these nodes; return the list that the answer goes to."""
    answers: list[dict[str, Usage]] = []
    nodes = [one for one in fleet.fleet.nodes.values() if one.name in names]

    def answered(used: dict[NodeConnection, Usage]) -> None:
        answers.append({node.name: one for node, one in used.items()})

    fleet.fleet.node_queries.ask(nodes, USAGE, UsageAsk(), answered)
    fleet.step()
    return answers


def answers(fleet: FakeFleet, *names: str, number: int = 1) -> None:
    for name in names:
        fleet.node(name).says(reply(USAGE, USED, number))
    fleet.step()


def test_all_nodes_answer(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1", "n2")
    got = asked(fleet, "n0", "n1")
    asks = [asked_of(fleet.news(name), USAGE) for name in ("n0", "n1", "n2")]
    assert asks == [[{}], [{}], []]
    answers(fleet, "n1")
    assert got == []
    answers(fleet, "n0")
    assert got == [{"n0": USED, "n1": USED}]
    fleet.go(PATIENCE + 1)
    assert len(got) == 1


def test_who_is_late_is_left_out_and_may_answer_later(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1")
    got = asked(fleet, "n0", "n1")
    answers(fleet, "n0")
    fleet.go(PATIENCE)
    assert got == [{"n0": USED}]
    again = asked(fleet, "n0", "n1")
    answers(fleet, "n1")
    answers(fleet, "n1", "n0", number=2)
    assert again == [{"n0": USED, "n1": USED}]
    assert fleet.node("n1").open


def test_two_may_ask_at_a_time(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    one, other = asked(fleet, "n0"), asked(fleet, "n0")
    answers(fleet, "n0", number=2)
    assert [one, other] == [[], [{"n0": USED}]]
    answers(fleet, "n0")
    assert [one, other] == [[{"n0": USED}], [{"n0": USED}]]


def test_without_connected_nodes_the_answer_is_empty(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", connect=False)
    got = asked(fleet, "n0")
    fleet.go(0.5)
    assert got == [{}]


def test_who_drops_a_question_gets_no_answer(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    got: list[Any] = []
    question = fleet.fleet.node_queries.ask(
        fleet.fleet.nodes.values(), USAGE, UsageAsk(), got.append
    )
    question.cancel()
    question.cancel()
    answers(fleet, "n0")
    fleet.go(PATIENCE + 1)
    assert got == []


def test_a_node_that_fails_to_answer_is_not_waited_for_and_named_once(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1")
    for number in (1, 2):
        got = asked(fleet, "n0", "n1")
        fleet.node("n1").says(questions.pack_failure(number, "usage", "KeyError: 'x\x1b[2J'"))
        answers(fleet, "n0", number=number)
        assert got == [{"n0": USED}]
    assert fleet.node("n1").open
    assert fleet.said("warning") == [
        "this is a bug in dsrun: no answer of n1 to 'usage': KeyError: 'x\\x1b[2J'"
    ]


BAD = {
    "nobody asked it": lambda: reply(USAGE, USED),
    "no such question": lambda: reply(USAGE, USED, 2),
    "never asked for": lambda: reply(END_JOB, EndedJob((), ())),
    "no more time for that": lambda: questions.pack_more(2, "usage", 1.0),
    "another type": lambda: reply(("usage", EndJob, EndedJob), EndedJob((), ())),
    "not a reply": lambda: questions.pack_question(1, "usage", USED),
}


@pytest.mark.parametrize("frame", BAD)
def test_a_node_that_lies_ends_its_own_connection_alone(fleet_of: FleetOf, frame: str) -> None:
    fleet = fleet_of("n0", "n1")
    assert fleet.fleet.node_queries is fleet.fleet.node_queries
    got = asked(fleet, "n0", *(["n1"] if frame != "nobody asked it" else []))
    fleet.node("n1").says(BAD[frame]())
    answers(fleet, "n0")
    assert [fleet.node("n0").open, fleet.node("n1").open] == [True, False]
    fleet.go(PATIENCE)
    assert got == [{"n0": USED}]


def test_a_node_answers_once(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    asked(fleet, "n0")
    answers(fleet, "n0", "n0")
    assert "'usage' was not asked" in fleet.fleet.nodes[0].lost


def test_the_times_of_a_question_are_its_own(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    queries = fleet.fleet.node_queries
    assert queries.times(USAGE) == NEVER
    asked(fleet, "n0")
    began = fleet.clock.now
    assert queries.times(USAGE) == (began, began)
    fleet.node("n0").says(questions.pack_more(1, "usage", 4.0))
    fleet.step()
    assert queries.times(USAGE) == (began, began + 4.0)
    fleet.go(5.0)
    answers(fleet, "n0")
    assert queries.times(USAGE) == (began, fleet.clock.now)
    assert queries.times(END_JOB) == NEVER


def test_who_asks_for_more_time_is_waited_for_and_others_are_not(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1")
    got = asked(fleet, "n0", "n1")
    fleet.node("n0").says(questions.pack_more(1, "usage", PATIENCE + 4))
    fleet.go(PATIENCE + 2)
    assert got == []
    answers(fleet, "n1", "n0")
    assert got == [{"n0": USED}]


def test_one_question_may_take_longer_than_another(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    got: list[Any] = []
    nodes = fleet.fleet.nodes.values()
    order = EndJob("job", 15, 3.0)
    fleet.fleet.node_queries.ask(nodes, END_JOB, order, got.append, PATIENCE + 2)
    assert asked_of(fleet.news("n0"), END_JOB) == [order._asdict()]
    fleet.go(PATIENCE + 1)
    fleet.node("n0").says(reply(END_JOB, EndedJob(("pid 7",), ())))
    fleet.step()
    assert [[*one.values()] for one in got] == [[EndedJob(("pid 7",), ())]]
