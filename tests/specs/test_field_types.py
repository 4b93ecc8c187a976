"""What a field of a message may hold, and what it may not."""

from __future__ import annotations

import math

import pytest

from dsrun.launcher.control import messages
from dsrun.launcher.specs.field_types import (
    LONGEST_NAME,
    MOST,
    MOST_RANKS,
    MOST_SLOTS,
    PLAIN,
    Misfit,
    reader,
)
from dsrun.launcher.specs.policies import POLICIES, Rule
from dsrun.launcher.specs.program import Program

NETWORK = [4711, "token", "", ["ib0"], [["eth0", "10.0.0.1"]]]
FACTS = [1.5, "3.11.2", "/py", {}, {}, 0, 0, 1, [], [], False, "", "", 0, {}, {}, {}, []]
RENDEZVOUS = ["c10d", "h:1", "id", 1, 2, {}, "", 0, 1.5]


def fits(hint: str, value: object) -> bool:
    """Whether a value is of a type."""
    try:
        reader(hint)(value)
    except Misfit:
        return False
    return True


BOUNDS = {
    "int": (1 - MOST, MOST - 1),
    "Size": (0, MOST),
    "Count": (0, MOST_SLOTS),
    "Rank": (0, MOST_RANKS),
    "Pid": (0, MOST_RANKS),
    "Id": (0, MOST_RANKS - 1),
    "Port": (0, 65535),
    "Code": (-64, 255),
}
"""The least and the most of each kind of whole number."""


@pytest.mark.parametrize("name", BOUNDS)
def test_whole_numbers_have_bounds(name: str) -> None:
    least, most = BOUNDS[name]
    assert [fits(name, value) for value in (least, most)] == [True, True]
    beyond = (least - 2, most + 2) if name == "int" else (least - 1, most + 1)
    assert [fits(name, value) for value in beyond] == [False, False]
    assert not [value for value in (True, 1.0, "1", None, [1]) if fits(name, value)]


GOOD: dict[str, tuple[object, ...]] = {
    "str": ("", "é\udcff\n\0", "x" * 5000),
    "Name": ("", "w0", "é", "x" * LONGEST_NAME),
    "bool": (True, False),
    "Signal": (0, 9, 15, 64),
    "float": (0, 1.5, -3, MOST - 1024.0),
    "Fields": ({}, {"a": [1, None]}),
    "tuple[str, ...]": ([], (), ["a", ""]),
    "tuple[Name, ...]": ([], ["a"], ("a",)),
    "tuple[int, ...]": ([], [1, -1]),
    "tuple[Rank, ...]": ([], [0, MOST_RANKS]),
    "tuple[Pid, ...]": ([], [0, MOST_RANKS]),
    "tuple[Slot, ...]": ([], [0, MOST, "GPU-1"]),
    "dict[str, str]": ({}, {"a": "b", "\udcff": ""}),
    "dict[str, int]": ({}, {"a": -1, "b": MOST - 1}),
    "dict[str, list[str]]": ({}, {"0": ["out", ""]}),
    "tuple[dict[str, str], ...]": ([], [{}, {"a": "b"}]),
    "Program": (["x", ["a"], False, False, None, True, False, "--x", ""], Program("x")),
    "frozenset[int]": ([], [1, 2]),
    "tuple[tuple[str, int], ...]": ([], [["a", 1]]),
    "Rule": (["n", "x", 0.0, 0, "", "", 0, [1], "stop"],),
    "Rendezvous": (RENDEZVOUS,),
    "Facts": (FACTS,),
    "Facts | None": (None, FACTS),
    "Network": (NETWORK,),
    "Network | None": (None, NETWORK),
    "str | None": (None, "a"),
    "int | None": (None, 3),
    "Port | None": (None, 0, 65535),
    "Rendezvous | None": (None, RENDEZVOUS),
    "tuple[Slot, ...] | None": (None, [0, "a"]),
    "dict[str, str] | None": (None, {}, {"a": "b"}),
}

BAD: dict[str, tuple[object, ...]] = {
    "str": (None, 1, b"a", "\ud800", ["a"]),
    "Name": (None, 1, "a\nb", "\x1b", "\udcff", "x" * (LONGEST_NAME + 1)),
    "bool": (0, 1, None, "true"),
    "Signal": (True, -1, 65, 1.0, "15", None),
    "Fields": ([], "{}", None, 1),
    "float": (True, None, "1", math.nan, math.inf, -math.inf, MOST, -MOST, 2.0**63),
    "tuple[str, ...]": ("ab", None, {"a": 1}, [1], ["a", None]),
    "tuple[Name, ...]": ("ab", ["a\0"], [1]),
    "tuple[int, ...]": (1, ["1"], [True], [1.5]),
    "tuple[Rank, ...]": ([-1], [MOST_RANKS + 1], 3),
    "tuple[Pid, ...]": ([-1], [MOST_RANKS + 1], "3"),
    "tuple[Slot, ...]": ([-1], [0.5], [None], [True], 3),
    "dict[str, str]": ([], None, {"a": 1}, {"\ud800": ""}, {"a": None}),
    "dict[str, int]": ([], None, {"a": "1"}, {"a": 1.5}, {"\ud800": 1}, {"a": MOST + 1}),
    "dict[str, list[str]]": ({"0": ["x"]}, {"0": ["x", "y", "z"]}, {"0": "xy"}, {"0": ["x", 1]}),
    "tuple[dict[str, str], ...]": ({}, [[]], [{"a": 1}]),
    "Program": (
        [],
        ["x"],
        ["x", "a", False, False, None, True, False, "--x", ""],
        [*Program("x")][:-1],
        {"script": "x"},
        None,
    ),
    "frozenset[int]": (3, "12", {"1": 1}, ["1"]),
    "tuple[tuple[str, int], ...]": ([["a"]], [["a", 1, 2]], [["a", "b"]], ["a1"]),
    "Rule": ([], [*Rule("n", "x")][:-1], None),
    "Rendezvous": (RENDEZVOUS[:-1], [*RENDEZVOUS, 1], [None, *RENDEZVOUS[1:]]),
    "Facts": ([], FACTS[:-1], None),
    "Facts | None": ([], {"wall": 1.5}),
    "Network": ([], [*NETWORK, 1], [*NETWORK[:-1], [["eth0"]]], [-1, *NETWORK[1:]], None),
    "Network | None": ([], {"port": 1}),
    "str | None": (1, ["a"]),
    "int | None": ("3", True),
    "Port | None": (-1, 65536, "1"),
    "Rendezvous | None": ([], False),
    "tuple[Slot, ...] | None": ([-1], 0),
    "dict[str, str] | None": ([], {"a": 1}),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_is_of_a_type_and_what_is_not(name: str) -> None:
    assert [value for value in GOOD[name] if not fits(name, value)] == []
    assert [value for value in BAD[name] if fits(name, value)] == []


def test_a_value_comes_back_with_its_types() -> None:
    rule = Rule("n", "x", ranks=frozenset({1, 2}))
    row = [[*rule[:7], [2, 1], "report"]]
    made = reader("tuple[Rule, ...]")(row)
    assert made == (rule,)
    assert type(made[0]) is Rule
    assert reader("dict[str, tuple[int, ...]]")({"a": [1]}) == {"a": (1,)}


@pytest.mark.parametrize(
    ("hint", "value", "words"),
    [
        (
            "Program",
            ["x", ["a", 3], False, False, None, True, False, "-", ""],
            ".args[1]: expected str",
        ),
        ("dict[str, int]", {"a": "b"}, "['a']: expected int"),
        ("tuple[Slot, ...] | None", [1, None], "[1]: expected Slot"),
        ("str | None", 3, "expected str | None"),
        ("Program", {"script": "x"}, "expected Program"),
    ],
)
def test_the_place_of_a_misfit_is_told(hint: str, value: object, words: str) -> None:
    with pytest.raises(Misfit) as caught:
        reader(hint)(value)
    assert str(caught.value) == words


def test_a_type_that_is_not_known_is_an_error() -> None:
    with pytest.raises(KeyError):
        reader("Nothing")


def test_every_field_of_a_message_and_of_a_policy_can_be_read() -> None:
    shapes = [one for one in vars(messages).values() if hasattr(one, "_fields")]
    assert len(shapes) > 12
    for shape in (*shapes, *POLICIES):
        for hint in shape.__annotations__.values():
            reader(hint)


def test_no_type_is_without_examples() -> None:
    assert GOOD.keys() | BOUNDS.keys() >= PLAIN.keys() - {"None", "Slot", "list[str]"}
    assert BAD.keys() == GOOD.keys()
