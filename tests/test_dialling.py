"""Who may come in at the door: announced tokens, and the secret that nodes share."""

from __future__ import annotations

import os
import socket
from contextlib import closing

import pytest

from dsrun.launcher.control import auth, frames
from dsrun.launcher.control.line import Line
from dsrun.launcher.head.fleet.authentication import Announced, Sharing, target
from dsrun.launcher.head.fleet.listener import NO_PROOF
from dsrun.launcher.resources.hostfile import Host
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program


def plan(*names: str, slots: int = 2, script: str = "train.py", **more: str) -> Plan:
    hosts = [Host(name, tuple(range(slots))) for name in names]
    return Plan(lay_out(hosts), Program(script), more.get("launcher", "none"), None, None)


PLAN = plan("a", "b", "c")


def awaited(*names: str, **told: list[tuple[int, object]]) -> Announced:
    """Nodes of these names are awaited; `entered` and `refused` note who came and who may not."""
    entered, refused = told.get("entered", []), told.get("refused", [])
    return Announced(
        plan(*names).nodes,
        lambda rank, line: entered.append((rank, line)),
        lambda rank, why: refused.append((rank, why)),
    )


def test_a_token_counts_once_it_is_announced_and_only_the_first() -> None:
    who = awaited("a", "b")
    claim = auth.Claim("a", "token")
    assert who.verify(claim) == "wait"
    who.announce("a", "token")
    who.announce("a", "forged")
    who.announce("stranger", "token")
    assert who.verify(claim) == "yes"
    assert who.verify(auth.Claim("a", "forged")) == NO_PROOF
    assert who.verify(auth.Claim("b", "token")) == "wait"
    assert who.verify(auth.Claim("stranger", "token")) == NO_PROOF


@pytest.mark.parametrize("name", ["b", "0@b", "1@b.cluster", "1@10.0.0.7", "1@else,b"])
def test_a_node_enters_once_under_its_rank(name: str) -> None:
    entered: list[tuple[int, object]] = []
    who = awaited("a", "b", entered=entered)
    who.announce(name, "token")
    assert who.verify(auth.Claim(name, "token")) == "yes"
    near, far = socket.socketpair()
    with far, closing(Line(fd := near.detach(), fd)) as line:
        who.enter(auth.Claim(name, "token"), line)  # type: ignore[arg-type]
        assert entered == [(1, line)]
    assert who.verify(auth.Claim(name, "token")) == NO_PROOF


def test_an_engine_may_start_one_node_launcher_a_node() -> None:
    refused: list[tuple[int, object]] = []
    who = awaited("a", "b", refused=refused)
    who.announce("0@a", "token")
    who.announce("1@a", "another")
    assert refused == [(0, "the engine has started two node launchers for it")]
    assert who.verify(auth.Claim("1@a", "another")) == "wait"


NOT_OURS = "turned away, its DSRUN_TOKEN is not this one's"


class Mute:
    """A line whose frames nobody reads."""

    def send(self, frame: bytes) -> None:
        """Take a frame."""


def proved(node: str, secret: str = "s", pin: str = "pin", other: Plan = PLAN) -> auth.Claim:
    return auth.Claim(node, auth.prove(secret, pin, f"node {node}"), auth.digest(other))


@pytest.mark.parametrize(
    ("claim", "warning"),
    [
        (proved("1"), ""),
        (proved("1", secret="t"), f"node 1: {NOT_OURS}"),
        (proved("1", pin="other"), f"node 1: {NOT_OURS}"),
        (auth.Claim("2", proved("1").proof, auth.digest(PLAN)), f"node 2: {NOT_OURS}"),
        (proved("3"), f"node 3: {NOT_OURS}"),
        (proved("x" * 99), f"node {'x' * 20}: {NOT_OURS}"),
        (proved("\x1b[2J"), f"node \\x1b[2J: {NOT_OURS}"),
    ],
)
def test_who_shares_the_secret(claim: auth.Claim, warning: str) -> None:
    """What a stranger says of itself cannot reach the terminal raw."""
    who = Sharing(PLAN, "s", "pin", lambda _rank, _line: None, pytest.fail)
    assert who.verify(claim) == (warning or "yes")


@pytest.mark.parametrize(
    ("claim", "fault"),
    [
        (proved("0"), "two nodes came as --node_rank 0: {here} and h2; each needs its own, 0 to 2"),
        (proved("1"), "two nodes came as --node_rank 1: h1 and h2; each needs its own, 0 to 2"),
        (
            proved("2", other=plan("a", "b", "c", slots=3)),
            "node 2 (h2) was started with another command line"
            " (hosts, slots and script must be the same on every node)",
        ),
    ],
)
def test_a_node_that_cannot_take_part_is_told_why_and_ends_the_start(
    claim: auth.Claim, fault: str
) -> None:
    told: list[str] = []
    who = Sharing(PLAN, "s", "pin", lambda _rank, _line: None, told.append)
    who.enter(proved("1")._replace(host="h1"), Mute())  # type: ignore[arg-type]
    near, far = socket.socketpair()
    assert who.verify(claim) == "yes"
    with far:
        who.enter(claim._replace(host="h2"), Line(fd := near.detach(), fd))  # type: ignore[arg-type]
        ((kind, body),) = frames.Decoder().feed(far.recv(4096))
        assert far.recv(1) == b""
    fault = fault.format(here=os.uname().nodename)
    assert (kind, frames.unpack_json(body)) == (frames.END, {"code": 69, "story": fault})
    assert told == [fault]


def test_the_runner_proves_itself_in_turn() -> None:
    entered: list[int] = []
    who = Sharing(PLAN, "s", "pin", lambda rank, _line: entered.append(rank), pytest.fail)
    near, far = socket.socketpair()
    with far, closing(Line(fd := near.detach(), fd)) as line:
        who.enter(proved("2"), line)  # type: ignore[arg-type]
        ((kind, body),) = frames.Decoder().feed(far.recv(4096))
    assert (kind, body.decode()) == (frames.WELCOME, auth.prove("s", "pin", "runner 2"))
    assert entered == [2]
    assert auth.prove("s", "pin", "runner 2") != auth.prove("s", "pin", "node 2")


def test_what_two_runs_of_one_command_line_share() -> None:
    assert auth.digest(PLAN) == auth.digest(plan("a", "b", "c", launcher="ssh"))
    others = [plan("a", "b"), plan("a", "c", "b"), plan("a", "b", "c", slots=1)]
    others += [plan("a", "b", "c", script="x"), plan("a", "b", "c", script="\udcff")]
    assert len({auth.digest(one) for one in [PLAN, *others]}) == 6


def test_where_to_dial() -> None:
    assert target(["10.0.0.1", "fd00::1"], 7) == "10.0.0.1,fd00::1:7"
