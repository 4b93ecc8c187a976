"""Programs of dsrun on the nodes of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.common.errors import LOST
from dsrun.launcher.control import frames
from dsrun.launcher.features.exec.runner_fleet_programs import FleetPrograms
from dsrun.launcher.features.exec.runner_programs import LONGEST
from dsrun.launcher.head.fleet.commands import WINDOW

from ...support.exec_nodes import asked, exits, fed, prints, was_sent

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.features.exec.runner_fleet_programs import FleetProgram

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


class Played:
    def __init__(self, job: FakeFleet) -> None:
        self.job = job
        self.said: list[Any] = []
        self.programs = FleetPrograms(job.fleet, list(job.fleet.nodes.values()))

    def start(self, name: str, **arguments: list[str]) -> FleetProgram:
        def line(host: str, line: bytes) -> None:
            self.said.append((host, line))

        def end(host: str, code: int, why: str) -> None:
            self.said.append((host, code, why))

        running = self.programs.start(name, arguments, line, end)
        self.job.step()
        return running


def test_each_host_has_its_arguments_its_input_and_its_end(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0", "n1", "n2"))
    assert played.programs.names == ["n0", "n1", "n2"]
    assert played.programs.loop is played.job.loop
    running = played.start("network", n0=["--listen"], n2=["--dial", "n0"])
    n0, n1, n2 = played.job.nodes("n0", "n1", "n2")
    assert asked(n1) == []
    (command,) = asked(n2)
    assert (command["program"], command["argv"], command["stdin"]) == (
        "network",
        ["--dial", "n0"],
        True,
    )
    running.send("n2", b"go\n")
    running.send("n0", b"")
    prints(n0, b"port 1\nport")
    exits(n0, 0)
    exits(n2, -9, "killed")
    played.job.step()
    assert (fed(n2), fed(n0)) == ([b"go\n"], [b""])
    assert [one for one in played.said if one[0] == "n0"] == [
        ("n0", b"port 1"),
        ("n0", b"port"),
        ("n0", 0, ""),
    ]
    assert ("n2", 137, "killed") in played.said


def test_several_programs_run_at_a_time(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0"))
    played.start("a", n0=[])
    second = played.start("b", n0=[])
    node = played.job.node("n0")
    second.stop()
    played.job.step()
    assert [command["program"] for command in asked(node)] == ["a", "b"]
    stops = [body for kind, body in node.received if kind == frames.EXEC_STOP]
    assert [frames.unpack_exec_stop(body)[0] for body in stops] == [asked(node)[1]["id"]]


def test_a_lost_host_has_ended(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0"))
    played.start("a", n0=[])
    played.job.node("n0").leaves()
    played.job.step()
    ((host, code, why),) = played.said
    assert (host, code) == ("n0", LOST)
    assert why
    played.start("a", n0=[])
    assert [one[:2] for one in played.said] == [("n0", LOST)] * 2


def test_output_is_taken_and_a_flood_ended(fleet_of: FleetOf) -> None:
    played = Played(fleet_of("n0"))
    played.start("a", n0=[])
    node = played.job.node("n0")
    prints(node, b"x" * (WINDOW // 4))
    played.job.step()
    assert was_sent(node, frames.EXEC_CREDIT)
    assert not was_sent(node, frames.EXEC_STOP)
    for _ in range(4 * LONGEST // WINDOW):
        prints(node, b"x" * (WINDOW // 4))
        played.job.step()
    assert was_sent(node, frames.EXEC_STOP)
    assert played.said == [("n0", 1, "it printed a line that is too long")]
