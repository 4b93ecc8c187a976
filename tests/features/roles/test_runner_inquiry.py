"""Nodes are asked whether servers answer; a test plays the nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.command_messages import CommandExit
from dsrun.launcher.features.roles.runner_directory import RoleNode
from dsrun.launcher.features.roles.runner_inquiry import AGAIN, NONE, Inquiry, ReadyQuestion

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

SERVERS = (RoleNode("n8", ("n8", "10.0.0.8"), (7000, 7001)), RoleNode("n9", ("n9",), ()))


class Asked:
    """An inquiry of some hosts, and what has come of it."""

    def __init__(self, fleet: FakeFleet, *hosts: str, **question: Any) -> None:
        self.fleet = fleet
        self.done: list[dict[str, list[int]]] = []
        self.whys: list[str] = []
        asked = ReadyQuestion(**{"kind": "port", "path": "", "places": SERVERS[:1]} | question)
        self.inquiry = Inquiry(fleet.fleet, hosts, asked, self.done.append, self.whys.append)
        fleet.step()

    def numbers(self, host: str) -> list[int]:
        """The commands that a host was told to start."""
        self.fleet.step()
        received = self.fleet.node(host).received
        return [json.loads(body)["id"] for kind, body in received if kind == frames.EXEC]

    def request(self, host: str) -> dict[str, Any]:
        """What the program there reads."""
        received = self.fleet.node(host).received
        (body,) = [body for kind, body in received if kind == frames.EXEC_INPUT]
        asked: dict[str, Any] = json.loads(frames.unpack_numbered(body)[1])
        return asked

    def says(self, host: str, line: bytes) -> None:
        """Have the program on a host print a line."""
        data = frames.pack_numbered(
            frames.EXEC_OUTPUT, self.numbers(host)[-1], b"\x01" + line + b"\n"
        )
        self.fleet.node(host).says(data)
        self.fleet.step()

    def tells(self, host: str, server: int = 0, **told: Any) -> None:
        self.says(host, json.dumps({"server": server, **told}).encode())

    def ends(self, host: str, code: int, hint: str = "") -> None:
        """Have the program on a host end."""
        ended = CommandExit(self.numbers(host)[-1], code, hint)
        self.fleet.node(host).says(messages.pack(frames.EXEC_EXIT, ended))
        self.fleet.step()


@pytest.fixture
def fleet(fleet_of: FleetOf) -> FakeFleet:
    made: FakeFleet = fleet_of()
    return made


def test_the_program_reads_addresses_and_one_port(fleet: FakeFleet) -> None:
    asked = Asked(fleet, "n0", kind="http", path="/health", places=SERVERS[:1], port=1)
    servers = [[["n8", "10.0.0.8"], 7001]]
    assert asked.request("n0") == {"kind": "http", "path": "/health", "servers": servers}


def test_a_machine_without_ports_is_tried_at_any(fleet: FakeFleet) -> None:
    asked = Asked(fleet, "n0", kind="reach", places=SERVERS[1:])
    assert asked.request("n0")["servers"] == [[["n9"], 1]]


def test_the_addresses_that_answer_every_host_count(fleet: FakeFleet) -> None:
    asked = Asked(fleet, "n0", "n1")
    asked.tells("n0", answered=[0, 1])
    assert asked.done == []
    asked.tells("n1", answered=[1])
    assert asked.done == [{"n8": [1]}]


def test_if_none_answers_all_hosts_any_counts(fleet: FakeFleet) -> None:
    asked = Asked(fleet, "n0", "n1")
    asked.tells("n0", answered=[0])
    asked.tells("n1", answered=[1])
    assert asked.done == [{"n8": [0, 1]}]


def test_all_servers_are_waited_for(fleet: FakeFleet) -> None:
    asked = Asked(fleet, "n0", places=SERVERS)
    asked.tells("n0", 1, answered=[0])
    assert asked.done == []
    asked.tells("n0", 0, answered=[1])
    assert asked.done == [{"n8": [1], "n9": [0]}]


def test_why_it_takes_long_is_passed_on(fleet: FakeFleet) -> None:
    asked = Asked(fleet, "n0")
    asked.tells("n0", why="n8:7000: connection refused\x1b[2J")
    assert asked.whys == ["from n0: n8:7000: connection refused\\x1b[2J"]


@pytest.mark.parametrize(
    "line",
    [
        *(b"?", b"[]", b"{}", b'{"server": 7, "answered": [0]}', b'{"server": "x"}'),
        *(b'{"server": 0}', b'{"server": [], "answered": 3}', b"\xff"),
        *(b"[" * 200_000, b'{"server": ' * 9_000, b'{"server": Infinity, "answered": [0]}'),
        *(b'{"server": 0, "answered": Infinity}', b'{"server": 0, "answered": "00"}'),
        *(b'{"server": -1, "answered": [0]}', b'{"server": 1e999, "answered": [0]}'),
        *(b'{"server": ' + b"9" * 5000 + b"}", b'{"server": 0, "why": [1]}'),
    ],
)
def test_what_is_no_answer_is_dropped(fleet: FakeFleet, line: bytes) -> None:
    asked = Asked(fleet, "n0")
    asked.says("n0", line)
    assert (asked.done, asked.whys) == ([], [])


def test_addresses_that_nobody_has_asked_for_are_dropped(fleet: FakeFleet) -> None:
    asked = Asked(fleet, "n0")
    asked.tells("n0", answered=[5, -1, 1, "0"])
    assert asked.done == [{"n8": [1]}]


def test_a_program_that_is_killed_is_started_again(fleet: FakeFleet) -> None:
    asked = Asked(fleet, "n0")
    asked.ends("n0", -9, "its parent process was killed")
    assert asked.whys == ["from n0: its parent process was killed"]
    fleet.go(AGAIN)
    assert len(asked.numbers("n0")) == 2
    asked.tells("n0", answered=[0])
    assert asked.done == [{"n8": [0]}]


def test_a_host_that_is_lost_is_left_out(fleet: FakeFleet) -> None:
    asked = Asked(fleet, "n0", "n1")
    asked.tells("n0", answered=[0])
    fleet.node("n1").leaves()
    fleet.step()
    assert asked.done == [{"n8": [0]}]


def test_nothing_comes_after_it_was_stopped(fleet: FakeFleet) -> None:
    asked = Asked(fleet, "n0")
    asked.inquiry.stop()
    fleet.step()
    assert fleet.node("n0").got(frames.EXEC_STOP)()
    asked.tells("n0", answered=[0])
    asked.ends("n0", -15)
    fleet.go(2 * AGAIN)
    assert (asked.done, asked.whys, len(asked.numbers("n0"))) == ([], [], 1)


def test_a_file_has_no_address(fleet: FakeFleet) -> None:
    asked = Asked(fleet, "n0", kind="file", path="/there", places=())
    asked.tells("n0", answered=[])
    assert asked.done == [{}]


def test_who_asks_alone_and_is_lost_is_told_after_a_while(fleet: FakeFleet) -> None:
    losts: list[float] = []
    asked = ReadyQuestion("port", "", SERVERS[:1])
    Inquiry(
        fleet.fleet, ["n0"], asked, print, lambda _: None, lambda: losts.append(fleet.clock.now)
    )
    fleet.step()
    since = fleet.clock.now
    fleet.node("n0").leaves()
    fleet.step()
    assert losts == []
    fleet.go(AGAIN)
    assert losts == [since + AGAIN]


def test_a_machine_is_asked_at_none_of_its_ports() -> None:
    asked = ReadyQuestion("reach", "", SERVERS, NONE)
    assert json.loads(asked.line)["servers"] == [[["n8", "10.0.0.8"], 1], [["n9"], 1]]
