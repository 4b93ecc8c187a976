"""What a field of a message may hold, and what it may not."""

from __future__ import annotations

import math

import pytest

from dsrun.launcher.control.field_types import (
    CHECKS,
    LONGEST_NAME,
    MOST_RANKS,
    MOST_SLOTS,
    row,
    rows,
)
from dsrun.launcher.control.frames import MOST
from dsrun.launcher.specs.policies import BindingPolicy
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.rendezvous import Rendezvous

NETWORK = [4711, "token", "", ["ib0"], [["eth0", "10.0.0.1"]]]
FACTS = [1.5, "3.11.2", "/py", {}, "", "", 0, {}, {}, 0, 0, 1, {}, [], [], False]
RENDEZVOUS = ["c10d", "h:1", "id", 1, 2, {}, "", 0, 1.5]

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
    assert [CHECKS[name](value) for value in (least, most)] == [True, True]
    beyond = (least - 2, most + 2) if name == "int" else (least - 1, most + 1)
    assert [CHECKS[name](value) for value in beyond] == [False, False]
    assert not [value for value in (True, 1.0, "1", None, [1]) if CHECKS[name](value)]


GOOD: dict[str, tuple[object, ...]] = {
    "str": ("", "é\udcff\n\0", "x" * 5000),
    "Name": ("", "w0", "é", "x" * LONGEST_NAME),
    "bool": (True, False),
    "Signal": (0, 9, 15, 64),
    "float": (0, 1.5, -3, MOST - 1024.0),
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
    "Program": (["x", ["a"], False, False, None, True, False, "--x"], Program("x")),
    "BindingPolicy": (BindingPolicy(),),
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
        ["x", "a", False, False, None, True, False, "--x"],
        [*Program("x")][:-1],
        {"script": "x"},
        None,
    ),
    "BindingPolicy": ([], None),
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


@pytest.mark.parametrize("name", sorted(CHECKS.keys() - BOUNDS.keys()))
def test_what_is_of_a_type_and_what_is_not(name: str) -> None:
    assert [value for value in GOOD[name] if not CHECKS[name](value)] == []
    assert [value for value in BAD[name] if CHECKS[name](value)] == []


def test_a_row_has_a_value_for_each_field() -> None:
    check, many = row(Program), rows(Program)
    whole = list(Program("x", ("a",)))
    assert check(whole)
    assert check(tuple(whole))
    assert not check(whole[:-1])
    assert not check([*whole, 1])
    assert not check([1, *whole[1:]])
    assert not check("x" * len(whole))
    assert many([whole, whole])
    assert many([])
    assert not many([whole, whole[:-1]])
    assert not many(whole)


def test_every_type_of_a_shared_value_is_known() -> None:
    for shape in (Program, BindingPolicy, Rendezvous):
        assert set(shape.__annotations__.values()) <= CHECKS.keys()


def test_no_type_is_without_examples() -> None:
    assert GOOD.keys() | BOUNDS.keys() == CHECKS.keys()
    assert BAD.keys() == GOOD.keys()
