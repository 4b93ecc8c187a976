"""Which addresses of a first node the others reach: what is probed, and what follows."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.elastic.runner_master_selection import Reachability

ALL = ["", ""]
NONE = ["refused", "no answer"]


class Played:
    """Nodes with two addresses each, and the probes that were sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, tuple[int, ...]]] = []
        self.points = Reachability(lambda node: (f"a{node}", f"b{node}"), self.probe)

    def probe(self, first: int, nodes: tuple[int, ...]) -> None:
        self.sent.append((first, nodes))


def test_each_node_is_probed_once() -> None:
    played = Played()
    assert played.points.find([0, 1, 2]) is None
    assert played.points.find([0, 1, 2]) is None
    assert played.sent == [(0, (1, 2))]
    assert not played.points.answered(1, ALL)
    assert played.points.answered(2, ALL)
    assert played.points.find([0, 1, 2]) == "a0"
    assert played.points.find([0, 2]) == "a0"
    assert len(played.sent) == 1


def test_the_first_address_that_all_reach_is_taken() -> None:
    played = Played()
    played.points.find([0, 1, 2])
    played.points.answered(1, ["refused", ""])
    played.points.answered(2, ALL)
    assert played.points.find([0, 1, 2]) == "b0"
    assert played.points.find([0, 2]) == "a0"


def test_a_node_alone_needs_no_probe() -> None:
    played = Played()
    assert (played.points.find([3]), played.sent) == ("a3", [])


def test_what_the_start_has_verified_is_not_probed() -> None:
    played = Played()
    played.points.verified(0, 1, "b0")
    assert (played.points.find([0, 1]), played.sent) == ("b0", [])
    assert played.points.find([0, 1, 2]) is None
    assert played.sent == [(0, (2,))]


def test_where_that_is_not_enough_all_addresses_are_probed() -> None:
    played = Played()
    played.points.verified(0, 1, "a0")
    played.points.find([0, 1, 2])
    played.points.answered(2, ["no route", ""])
    assert played.points.find([0, 1, 2]) is None
    assert played.sent == [(0, (2,)), (0, (1,))]
    assert played.points.answered(1, ALL)
    assert played.points.find([0, 1, 2]) == "b0"


def test_where_there_is_none_those_that_do_not_reach_the_best_are_named() -> None:
    played = Played()
    played.points.find([0, 1, 2, 3])
    for node, verdicts in ((1, ["", "no route"]), (2, ["refused", ""]), (3, ["", "no answer"])):
        played.points.answered(node, verdicts)
    assert played.points.find([0, 1, 2, 3]) == ""
    assert played.points.unreachable([0, 1, 2, 3]) == {2: "a0 (refused)"}


def test_a_lost_node_is_probed_again_when_it_is_back() -> None:
    played = Played()
    played.points.find([0, 1, 2])
    for node in (1, 2):
        played.points.answered(node, ALL)
    played.points.remove(2)
    assert played.points.find([0, 1, 2]) is None
    assert played.sent[1:] == [(0, (2,))]
    played.points.remove(0)
    assert played.points.find([0, 1]) is None
    assert played.sent[2:] == [(0, (1,))]


def test_an_answer_of_before_the_first_node_was_lost_counts_no_more() -> None:
    played = Played()
    played.points.find([0, 1])
    played.points.remove(0)
    assert played.points.find([0, 1]) is None
    assert len(played.sent) == 1, "one probe at a time"
    assert played.points.answered(1, NONE)
    assert played.points.find([0, 1]) is None
    assert len(played.sent) == 2
    played.points.answered(1, ALL)
    assert played.points.find([0, 1]) == "a0"


def test_an_answer_for_a_port_that_is_no_longer_used_does_not_count() -> None:
    played = Played()
    played.points.find([0, 1, 2])
    played.points.answered(2, ALL)
    played.points.moved(0)
    played.points.moved(5)
    assert played.points.answered(1, NONE)
    assert played.points.find([0, 1, 2]) is None
    assert played.sent[1:] == [(0, (1,))], "what is verified is kept"


def test_a_node_that_still_probes_another_is_probed_after_that() -> None:
    played = Played()
    played.points.find([0, 1, 2])
    played.points.remove(0)
    assert played.points.find([1, 2]) is None
    assert len(played.sent) == 1
    assert played.points.answered(2, ALL)
    assert played.points.find([1, 2]) is None
    assert played.sent[1:] == [(1, (2,))]


def test_answers_to_the_probes_of_the_start_are_ignored() -> None:
    played = Played()
    played.points.owes(1, 1)
    assert played.points.find([0, 1]) is None
    assert not played.sent
    assert played.points.answered(1, ["x"])
    assert played.points.find([0, 1]) is None
    assert played.sent == [(0, (1,))]


def test_an_answer_that_nobody_waits_for_is_ignored() -> None:
    played = Played()
    assert not played.points.answered(1, ALL)
    played.points.find([0, 1])
    played.points.remove(1)
    assert not played.points.answered(1, NONE)
    assert played.points.find([0, 1]) is None, "it is probed anew"


def test_an_answer_of_the_wrong_length_is_refused() -> None:
    played = Played()
    played.points.find([0, 1])
    with pytest.raises(ValueError, match="3 answers for 2 addresses"):
        played.points.answered(1, ["", "", ""])
