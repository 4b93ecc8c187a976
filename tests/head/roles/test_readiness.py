"""When a role is ready: what is asked, of whom, and what its output tells."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.head.roles.readiness import UNPROVEN, LineWatch
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
    lines = [frames.unpack_for(body)[1] for kind, body in received if kind == frames.EXEC_INPUT]
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
    roles.node("n1").says(frames.pack_for(frames.EXEC_OUTPUT, number, line))
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
