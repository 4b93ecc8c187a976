"""Nodes that cannot be reached: what is said of them, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.elastic.runner_admission import FIRST, SECOND, UnreachedNodes, folded

from ...support.clock import Clock
from ...support.reconnection import hosts

if TYPE_CHECKING:
    pass


def test_what_fails_together_is_one_line() -> None:
    clock = Clock()
    said: list[str] = []
    unreached = UnreachedNodes(clock.loop, said.append)
    unreached.add("n1", "no route")
    clock.go(1)
    for name in hosts(317):
        unreached.add(name, f"no answer in {name[1:]} s")
    for _ in range(100):
        clock.go(1)
    many = "317 hosts could not be reached: x0 .. x316: no answer in 0 s"
    assert said == ["n1: no route", many]


def test_an_endless_row_of_failures_is_told_of_less_and_less_often() -> None:
    clock = Clock()
    said: list[str] = []
    unreached = UnreachedNodes(clock.loop, said.append)
    for number in range(600):
        unreached.add(f"x{number}", "no route")
        clock.go(1)
    assert 5 < len(said) < 20
    assert said[-1].endswith("]: no route")


def test_hosts_of_one_cause_are_named() -> None:
    assert folded({"a": "off", "b": "off"}) == "a, b: off"


def test_what_comes_within_the_silence_waits_for_its_end() -> None:
    clock = Clock()
    said: list[str] = []
    unreached = UnreachedNodes(clock.loop, said.append)
    unreached.add("n1", "off")
    clock.go(FIRST)
    unreached.add("n2", "off")
    clock.go(SECOND - 0.25)
    assert said == ["n1: off"]
    clock.go(0.25)
    assert said == ["n1: off", "n2: off"]
    clock.go(2 * SECOND - 0.25)
    unreached.add("n3", "off")
    clock.go(0.25)
    assert said[2:] == ["n3: off"], "the silence after it was twice as long"


def test_after_a_silence_without_failures_it_begins_anew() -> None:
    clock = Clock()
    said: list[str] = []
    unreached = UnreachedNodes(clock.loop, said.append)
    for host in ("n1", "n2"):
        unreached.add(host, "off")
        clock.go(FIRST)
        assert said[-1] == f"{host}: off"
        clock.go(SECOND)
        clock.go(2 * SECOND)
