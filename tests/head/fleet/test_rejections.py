"""Callers that were rejected, as the user is told of them."""

from __future__ import annotations

from dsrun.launcher.head.fleet.rejections import MOST_SOURCES, Rejections

from ...support.clock import Clock


def test_rejections_are_told_once_a_second() -> None:
    clock, said = Clock(), list[str]()
    rejections = Rejections(clock.loop, said.append)
    assert rejections.summary == ""
    for _ in range(312):
        rejections.add("10.77.0.9", "no proof")
    clock.go(0.5)
    assert said == []
    clock.go(0.5)
    first = "rejected 312 connections from 10.77.0.9 in the last second: no proof"
    assert said == [first]
    clock.go(60)
    for source in ("10.77.0.9", "10.77.0.9", "fd00::/64", "10.0.0.3"):
        rejections.add(source, "node \x1b[2J: turned away")
    rejections.flush()
    rejections.flush()
    more = "rejected 2 connections from 10.77.0.9 and 2 from 2 other addresses in the last second"
    assert said == [first, f"{more}: node \\x1b[2J: turned away"]
    assert rejections.summary == (
        "rejected during the start: 314 connections from 10.77.0.9 and 2 from 2 other addresses"
    )


def test_sources_without_number_take_no_memory() -> None:
    rejections = Rejections(Clock().loop, print)
    for number in range(3 * MOST_SOURCES):
        rejections.add(f"10.0.{number >> 8}.{number & 255}", f"reason {number}")
    assert len(rejections.counts) == MOST_SOURCES + 1


def test_a_line_gives_few_reasons_and_little_of_each() -> None:
    clock, said = Clock(), list[str]()
    rejections = Rejections(clock.loop, said.append)
    for reason in ("a" * 300, "b", "c", "d"):
        rejections.add("10.0.0.1", reason)
    clock.go(1.0)
    start = "rejected 4 connections from 10.0.0.1 in the last second: "
    assert said == [f"{start}{'a' * 200}; b; c"]
    rejections.add("10.0.0.1", "e")
    clock.go(1.0)
    assert said[1:] == ["rejected 1 connection from 10.0.0.1 in the last second: e"]


def test_one_other_address_is_one() -> None:
    rejections = Rejections(Clock().loop, print)
    for source in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
        rejections.add(source, "no proof")
    expected = "rejected during the start: 2 connections from 10.0.0.1 and 1 from 1 other address"
    assert rejections.summary == expected


def test_what_was_said_early_is_not_said_again() -> None:
    clock, said = Clock(), list[str]()
    rejections = Rejections(clock.loop, said.append)
    rejections.add("10.0.0.1", "no proof")
    rejections.flush()
    clock.go(0.5)
    rejections.add("10.0.0.2", "no proof")
    clock.go(0.75)
    assert len(said) == 1
    clock.go(0.25)
    assert said[1] == "rejected 1 connection from 10.0.0.2 in the last second: no proof"
