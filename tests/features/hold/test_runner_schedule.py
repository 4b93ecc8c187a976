"""Which run has which slots: in their order, side by side where they can be."""

from __future__ import annotations

from dsrun.launcher.features.hold.runner_schedule import Schedule

A, B = {"n1": [0, 1]}, {"n1": [1], "n2": [0]}


def test_disjoint_slots_are_used_side_by_side_also_on_one_node() -> None:
    schedule = Schedule()
    assert schedule.ask("left", {"n1": [0], "n2": [0]})
    assert schedule.ask("right", {"n1": [1], "n2": [1]})
    assert schedule.taken("n1") == {0, 1}
    assert schedule.release("left") == []
    assert schedule.taken("n1") == {1}
    assert schedule.taken("n3") == set()


def test_a_run_waits_for_its_slots_and_begins_when_they_are_free() -> None:
    schedule = Schedule()
    assert schedule.ask("one", A)
    assert not schedule.ask("two", B)
    assert schedule.waiting == ("two",)
    assert schedule.release("one") == ["two"]
    assert schedule.taken("n2") == {0}


def test_first_come_first_served_and_nobody_starves() -> None:
    """A small run does not pass a large one that waits for the same slot, but others may."""
    schedule = Schedule()
    assert schedule.ask("first", {"n1": [0]})
    assert not schedule.ask("large", {"n1": [0, 1]})
    assert not schedule.ask("small", {"n1": [1]})
    assert schedule.ask("elsewhere", {"n2": [0]})
    assert schedule.blockers({"n1": [1]}) == ["large", "small"]
    assert schedule.release("first") == ["large"]
    assert schedule.release("large") == ["small"]


def test_several_begin_at_once_where_they_fit() -> None:
    schedule = Schedule()
    assert schedule.ask("all", {"n1": [0, 1, 2]})
    for run, slots in (("a", [0]), ("b", [1]), ("ab", [0, 1]), ("c", [2])):
        assert not schedule.ask(run, {"n1": slots})
    assert schedule.release("all") == ["a", "b", "c"]
    assert schedule.release("a") == []
    assert schedule.release("b") == ["ab"]


def test_one_that_waits_no_more_lets_later_ones_pass() -> None:
    schedule = Schedule()
    assert schedule.ask("first", {"n1": [0]})
    assert not schedule.ask("large", {"n1": [0, 1]})
    assert not schedule.ask("small", {"n1": [1]})
    assert schedule.release("large") == ["small"]
    assert schedule.release("never asked") == []
    assert schedule.blockers({"n1": [0, 1]}) == ["first", "small"]


def test_ids_of_devices_and_indices_are_slots_alike() -> None:
    schedule = Schedule()
    assert schedule.ask("1", {"n1": ["GPU-1"]})
    assert schedule.ask("2", {"n1": [0]})
    assert not schedule.ask("3", {"n1": ["GPU-1"]})
