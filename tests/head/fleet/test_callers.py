"""Who gives up his place when all are taken."""

from __future__ import annotations

import socket

import pytest

from dsrun.launcher.control.auth import Credentials
from dsrun.launcher.head.fleet.callers import PLACES, Caller, Callers, Stage, source_of


def caller(source: str, stage: Stage = Stage.SILENT) -> Caller:
    made = Caller(socket.socket(), source)
    made.stage = stage
    return made


def test_the_oldest_silent_caller_of_the_fullest_source_goes_first() -> None:
    crowd = [
        caller("one", Stage.IDENTIFIED),
        caller("many", Stage.IDENTIFIED),
        caller("many", Stage.HANDSHAKE),
        *(caller(source) for source in ("many", "many", "two", "two")),
        caller("many", Stage.HANDSHAKE),
    ]
    callers = Callers()
    for one in crowd:
        callers.add(one)
    order = []
    while len(callers):
        order.append(crowd.index(callers.next_to_go()))
        callers.remove(crowd[order[-1]])
        crowd[order[-1]].socket.close()
    assert order == [3, 4, 2, 5, 7, 6, 0, 1]


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("fd00:1:2:3:aaaa::1", "fd00:1:2:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_what_counts_as_one_source(address: str, source: str) -> None:
    assert source_of(address) == source


def test_callers_are_known_until_they_are_removed() -> None:
    one, other = caller("one"), caller("other")
    callers = Callers()
    callers.add(one)
    assert (one in callers, other in callers) == (True, False)
    callers.add(other)
    assert (len(callers), callers.all()) == (2, [one, other])
    callers.remove(one)
    assert (one in callers, callers.all()) == (False, [other])
    callers.remove(other)
    assert len(callers) == 0
    for made in (one, other):
        made.socket.close()


def test_a_descriptor_that_is_used_again_is_another_caller() -> None:
    made = caller("one")
    callers = Callers()
    callers.add(made)
    again = Caller(made.socket, "one")
    assert again not in callers
    made.socket.close()


def test_who_waits_is_found_by_the_node_that_it_says_it_is() -> None:
    crowd = [caller("one"), caller("one"), caller("two")]
    callers = Callers()
    for one in crowd:
        callers.add(one)
    crowd[1].credentials = Credentials("w0", "token")
    crowd[2].credentials = Credentials("w1", "token")
    assert callers.waiting("w0") == [crowd[1]]
    assert callers.waiting("w1") == [crowd[2]]
    assert callers.waiting("w2") == []
    for one in crowd:
        one.socket.close()


def test_a_new_caller_has_said_nothing() -> None:
    made = caller("one")
    assert (made.stage, made.line, made.credentials, made.timer) == (Stage.SILENT, None, None, None)
    assert made.fd == made.socket.fileno()
    made.socket.close()
    assert PLACES == 512
