"""When a role is ready: what is asked, of whom, and what its output tells."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import SWEPT
from dsrun.launcher.control import frames
from dsrun.launcher.features.roles.runner_inquiry import AGAIN, ANY_PORT
from dsrun.launcher.features.roles.runner_probe import UNPROVEN, LineWatch
from dsrun.launcher.head.run.events import RESULT, RankOutput
from dsrun.launcher.specs.roles import Ready

from ...support.fake_roles import FakeRoles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def roles_of() -> Iterator[Callable[..., FakeRoles]]:
    """Make jobs whose server is ready in some way; all have begun."""
    made: list[FakeRoles] = []

    def make(**ready: Any) -> FakeRoles:
        made.append(FakeRoles(Ready(**ready), ports=("grpc", "http")))
        made[-1].begin()
        made[-1].node("n0").beats()
        made[-1].step()
        return made[-1]

    yield make
    for one in made:
        one.close()


def requests(roles: FakeRoles, host: str) -> list[dict[str, Any]]:
    """What programs on a host were asked."""
    received = roles.node(host).received
    lines = [
        frames.unpack_numbered(body)[1] for kind, body in received if kind == frames.EXEC_INPUT
    ]
    return [json.loads(line) for line in lines]


def test_a_role_that_is_ready_at_once_is_only_to_be_reached(
    roles_of: Callable[..., FakeRoles],
) -> None:
    roles = roles_of()
    assert [one["kind"] for one in requests(roles, "n1")] == ["reach"]
    roles.answers("n1", 1)
    assert roles.states()["server"] == "starting"
    roles.up("n0", 0, 1)
    assert roles.states()["server"] == "ready"
    assert roles.peers("n1")["server"]["hosts"] == ("10.0.0.1",)


def test_addresses_that_nobody_answers_at_do_not_hold_up_the_job(
    roles_of: Callable[..., FakeRoles],
) -> None:
    roles = roles_of()
    roles.up("n0", 0, 1)
    assert roles.states()["server"] == "running"
    roles.go(UNPROVEN)
    assert roles.states()["server"] == "ready"


def test_a_server_is_tried_from_a_node_that_waits_for_it(
    roles_of: Callable[..., FakeRoles],
) -> None:
    roles = roles_of(kind="http", port="http", what="/health")
    assert requests(roles, "n1") == []
    roles.up("n0", 0, 1)
    (asked,) = requests(roles, "n1")
    assert (asked["kind"], asked["path"]) == ("http", "/health")
    roles.answers("n1", 0)
    assert roles.states()["server"] == "ready"


def test_a_server_that_is_not_ready_in_time_is_told_with_the_reason(
    roles_of: Callable[..., FakeRoles],
) -> None:
    roles = roles_of(kind="port", port="grpc", timeout=8.0)
    roles.up("n0", 0, 1)
    number = json.loads(next(b for k, b in roles.node("n1").received if k == frames.EXEC))["id"]
    line = b'\x01{"server": 0, "why": "n0:7000: connection refused"}\n'
    roles.node("n1").says(frames.pack_numbered(frames.EXEC_OUTPUT, number, line))
    roles.go(8.0)
    why = "it was not ready after 8 s (ready_timeout): from n1: n0:7000: connection refused"
    assert roles.job.policy.cause is not None
    assert roles.job.policy.cause.why == why
    assert roles.node("n1").got(frames.EXEC_STOP)()


def test_a_file_is_looked_for_on_its_own_node(roles_of: Callable[..., FakeRoles]) -> None:
    roles = roles_of(kind="file", what="there")
    roles.answers("n1", 0)
    roles.up("n0", 0, 1)
    (asked,) = requests(roles, "n0")
    assert asked == {"kind": "file", "path": "/work/there", "servers": []}
    roles.answers("n0")
    assert roles.states()["server"] == "ready"


@pytest.mark.parametrize("early", [True, False])
def test_a_line_may_come_before_all_workers_are_known_to_run(
    roles_of: Callable[..., FakeRoles], early: bool
) -> None:
    roles = roles_of(kind="line", what="listens on .*")
    roles.answers("n1", 0)
    if not early:
        roles.up("n0", 0, 1)
        assert roles.states()["server"] == "running"
    roles.node("n0").prints(1, "listens on 80\n")
    roles.step()
    if early:
        roles.up("n0", 0, 1)
    assert roles.states()["server"] == "ready"


# -- ports ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["port", "http"])
def test_nobody_connects_before_the_role_itself_listens(kind: str) -> None:
    roles = FakeRoles(Ready(kind, port="http", timeout=8.0), ports=("grpc", "http"))
    roles.unbound = {"n0"}
    roles.begin()
    roles.node("n0").beats()
    roles.up("n0", 0, 1)
    assert questions(roles, "n0") == [["http"]]
    assert requests(roles, "n1") == []
    roles.unbound.clear()
    roles.step()
    assert len(requests(roles, "n1")) == 1
    roles.unbound = {"n0"}
    roles.answers("n1", 0)
    assert questions(roles, "n0") == [["http"], []]
    assert roles.states()["server"] == "running", "others may listen beside it by now"
    roles.unbound.clear()
    roles.step()
    assert roles.states()["server"] == "ready"
    roles.close()


def test_a_role_that_does_not_listen_in_time_is_told_so() -> None:
    roles = FakeRoles(Ready("port", port="http", timeout=8.0), ports=("http",))
    roles.unbound = {"n0"}
    roles.begin()
    roles.node("n0").beats()
    roles.up("n0", 0, 1)
    roles.go(8.0)
    assert roles.job.policy.cause is not None
    assert roles.job.policy.cause.why == (
        "it was not ready after 8 s (ready_timeout): its workers do not listen on port http"
    )
    roles.close()


@pytest.mark.parametrize("ready", [Ready(), Ready("line", what="up")])
def test_a_role_that_has_ports_is_not_ready_while_another_user_has_one(ready: Ready) -> None:
    roles = FakeRoles(ready, ports=("http",), on_failure="restart")
    roles.unbound = {"n0"}
    roles.begin()
    roles.node("n0").beats()
    roles.up("n0", 0, 1)
    roles.answers("n1", 0)
    roles.node("n0").prints(1, "up\n")
    roles.step()
    assert (questions(roles, "n0"), roles.states()["server"]) == ([[]], "running")
    taken = "port http (7000) on n0 was taken by uid 7 before server listened there"
    roles.node("n0").notes(taken, 9)
    roles.node("n0").stops(0, 1)
    roles.step()
    again = f"server: lost n0: {taken}; starting it again (restart 1 of 3)"
    assert again in roles.said()
    roles.close()


def test_a_machine_is_not_tried_at_the_ports_of_its_role(
    roles_of: Callable[..., FakeRoles],
) -> None:
    (asked,) = requests(roles_of(), "n1")
    assert {port for _, port in asked["servers"]} == {ANY_PORT}


def questions(roles: FakeRoles, host: str) -> list[list[str]]:
    """On which ports workers of a host are to listen, question by question."""
    received = roles.node(host).received
    return [json.loads(body)["wanted"] for kind, body in received if kind == frames.PORTS_ASK]


# -- who asks -------------------------------------------------------------------------------------


def test_who_is_lost_asks_no_more() -> None:
    """The trainer runs on n1 and n2: once n1 is lost, n2 asks; once that is, the server's node."""
    ready = Ready("http", port="http", what="/")
    again: dict[str, Any] = {"on_failure": "restart", "ports": ("http",)}
    roles = FakeRoles(ready, trainer={"on_failure": "restart"}, **again)
    roles.run_all()
    roles.fails("server", 1)
    roles.node("n0").exits(1, -15, told=True)
    roles.node("n0").done()
    roles.step()
    roles.are_fit("server")
    roles.node("n0").beats()
    roles.up("n0", 0, 1)
    assert [len(requests(roles, name)) for name in ("n0", "n1", "n2")] == [0, 2, 0]
    lose(roles, "n1")
    assert [len(requests(roles, name)) for name in ("n0", "n2")] == [0, 1]
    lose(roles, "n2")
    roles.go(AGAIN)
    assert len(requests(roles, "n0")) == 1
    roles.answers("n0", 0)
    assert roles.states()["server"] == "ready"
    roles.close()


def test_who_asks_follows_the_role() -> None:
    """The trainer moves while the server is not ready: its new place asks."""
    roles = FakeRoles(
        Ready("http", port="http", what="/"),
        ports=("http",),
        spares=("n3",),
        trainer={"on_failure": "restart"},
    )
    roles.begin()
    roles.node("n0").beats()
    roles.up("n0", 0, 1)
    lose(roles, "n1")
    assert "trainer: n1 is lost; n3 takes its place" in roles.said()
    roles.node("n3").hello(port=29500)
    roles.node("n2").hello(port=None)
    roles.step()
    roles.node("n2").reaches()
    roles.step()
    assert len(requests(roles, "n3")) == 1
    roles.answers("n3", 0)
    assert roles.states()["server"] == "ready"
    assert roles.peers("n0")["trainer"]["hosts"][0] != "n1"
    roles.close()


def lose(roles: FakeRoles, name: str) -> None:
    """Lose a node, whose workers have ended; it cannot be reached again."""
    roles.backend.absent.add(name)
    roles.node(name).leaves()
    roles.node(name).ends(f"the node launcher was killed by SIGKILL; {SWEPT}", 0.0)
    roles.go(1.0)


# -- lines ----------------------------------------------------------------------------------------


class Watched:
    """A watch for a line, and what it has told."""

    def __init__(self, expression: str) -> None:
        self.told: list[str] = []
        self.watch = LineWatch(expression, self.told.append)
        self.watch.on_found = lambda: self.told.append("found")

    def prints(self, text: str, stream: int = 1) -> None:
        self.watch.on_event(RankOutput(0, "n0", stream, text.encode()))


def test_a_line_counts_once_it_is_whole() -> None:
    watched = Watched("^ready$")
    watched.prints("not ready\nrea")
    assert watched.told == []
    watched.prints("dy\n")
    watched.prints("ready\n")
    assert watched.told == ["found"]


def test_what_a_function_returns_is_no_line() -> None:
    watched = Watched("ready")
    watched.prints("ready\n", RESULT)
    assert watched.told == []


def test_a_search_that_takes_too_long_is_given_up() -> None:
    watched = Watched("(a|a)*$")
    watched.prints("a" * 40 + "!\n")
    watched.prints("a\n")
    (told,) = watched.told
    assert re.search(r"takes too long: it cannot become ready", told)
