"""The nodes of a run asked where its ranks are: who answers, who does not, who answers too late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import questions
from dsrun.launcher.features.stacks.messages import STACKS, StacksAnswer
from dsrun.launcher.features.stacks.runner_collect import LONGEST, PATIENCE, collect
from dsrun.launcher.specs.host import Host

from ...support.questions import asked as asked_of
from ...support.questions import reply
from ...support.stacks import ALL_REDUCE, LOAD, collective, process, thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.features.stacks.runner_view import RankView
    from dsrun.launcher.head.run.run import Run

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


@pytest.fixture
def running(fleet_of: FleetOf) -> tuple[FakeFleet, Run]:
    """A fleet of two nodes, with a run of four ranks."""
    fleet = fleet_of("n0", "n1")
    return fleet, fleet.start()


def asked(fleet: FakeFleet, run: Run, **how: Any) -> list[dict[int, RankView]]:
    got: list[dict[int, RankView]] = []
    collect(run.fleet, run.state.nodes, run.state.workers, got.append, **how)
    fleet.step()
    return got


def tells(fleet: FakeFleet, name: str, *ranks: int, number: int = 1) -> None:
    rows = (
        tuple(process(rank) for rank in ranks),
        tuple(thread(4000 + rank, LOAD if rank == 3 else ALL_REDUCE) for rank in ranks),
        tuple(collective(rank, 5) for rank in ranks),
    )
    fleet.node(name).says(reply(STACKS, StacksAnswer(*rows, "/logs"), number))
    fleet.step()


def question(fleet: FakeFleet, name: str) -> list[Any]:
    return asked_of(fleet.news(name), STACKS)


def test_all_nodes_answer(running: tuple[FakeFleet, Run]) -> None:
    fleet, run = running
    got = asked(fleet, run, save=True)
    (ask,) = question(fleet, "n0")
    assert [ask["ranks"], ask["native"], ask["save"]] == [[], False, True]
    tells(fleet, "n1", 2, 3)
    assert got == []
    tells(fleet, "n0", 0, 1)
    (views,) = got
    assert [(one.rank, one.host, one.pid) for one in views.values()] == [
        *((0, "n0", 4000), (1, "n0", 4001), (2, "n1", 4002), (3, "n1", 4003)),
    ]
    assert [views[3].worker, views[3].threads, views[3].saved] == [
        *(process(3), (thread(4003, LOAD),)),
        "/logs",
    ]
    assert views[3].collectives == (collective(3, 5),)


def test_who_does_not_answer_is_named(running: tuple[FakeFleet, Run]) -> None:
    fleet, run = running
    got = asked(fleet, run)
    tells(fleet, "n0", 0, 1)
    fleet.go(PATIENCE)
    (views,) = got
    assert [one.problem for one in views.values()] == [
        *("", ""),
        *["no stacks within 1 s"] * 2,
    ]
    tells(fleet, "n1", 2, 3)
    assert fleet.node("n1").open
    assert len(got) == 1


def says_more(fleet: FakeFleet, name: str, seconds: float) -> None:
    fleet.node(name).says(questions.pack_more(1, "stacks", seconds))
    fleet.step()


def test_a_node_with_much_to_read_is_waited_for_and_a_silent_one_is_not(
    running: tuple[FakeFleet, Run],
) -> None:
    fleet, run = running
    got = asked(fleet, run)
    says_more(fleet, "n0", 5.0)
    fleet.go(PATIENCE + 3.0)
    tells(fleet, "n1", 2, 3)  # too late
    assert got == []
    tells(fleet, "n0", 0, 1)
    (views,) = got
    assert [one.problem for one in views.values()] == ["", "", *["no stacks within 1 s"] * 2]


def test_a_node_that_asks_for_time_is_not_waited_for_longer_than_that(
    running: tuple[FakeFleet, Run],
) -> None:
    fleet, run = running
    got = asked(fleet, run)
    for _ in range(3):
        says_more(fleet, "n0", 1e9)
    tells(fleet, "n1", 2, 3)
    fleet.go(LONGEST - 1.5)
    says_more(fleet, "n0", 1e9)
    assert got == []
    fleet.go(1.5)
    (views,) = got
    assert [bool(one.problem) for one in views.values()] == [True, True, False, False]


def test_a_node_with_many_ranks_has_longer_to_begin(fleet_of: FleetOf) -> None:
    fleet = fleet_of(Host("n0", tuple(range(28))))
    got = asked(fleet, fleet.start(), ranks=[3])
    fleet.go(PATIENCE + 0.5)
    assert got == []
    fleet.go(0.6)
    assert [one.problem for one in got[0].values()] == ["no stacks within 2 s"]


def test_some_ranks_alone(running: tuple[FakeFleet, Run]) -> None:
    fleet, run = running
    got = asked(fleet, run, ranks=[3], native=True)
    assert question(fleet, "n0") == []
    (ask,) = question(fleet, "n1")
    assert [ask["ranks"], ask["native"]] == [[3], True]
    tells(fleet, "n1", 2, 3)
    assert [[*views] for views in got] == [[3]]


def test_a_rank_that_has_ended_meanwhile_is_left_out(running: tuple[FakeFleet, Run]) -> None:
    fleet, run = running
    got = asked(fleet, run)
    fleet.node("n0").exits(0, 0)
    tells(fleet, "n0", 0, 1)
    tells(fleet, "n1", 2)
    (views,) = got
    assert [*views] == [1, 2, 3]
    assert [views[3].processes, views[3].problem] == [(), ""]


def test_no_rank_runs(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    got = asked(fleet, fleet.run())
    fleet.go(0.5)
    assert got == [{}]


def test_two_questions_at_a_time(running: tuple[FakeFleet, Run]) -> None:
    fleet, run = running
    first, second = asked(fleet, run, ranks=[0]), asked(fleet, run, ranks=[1])
    tells(fleet, "n0", 1, number=2)
    assert [len(first), len(second)] == [0, 1]
    tells(fleet, "n0", 0, number=1)
    assert [len(first), len(second)] == [1, 1]


def test_an_answer_that_nobody_has_asked_for_ends_the_connection(
    running: tuple[FakeFleet, Run],
) -> None:
    fleet, run = running
    asked(fleet, run)
    tells(fleet, "n0", 0, number=2)
    assert not fleet.node("n0").open
