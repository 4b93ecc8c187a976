"""Who may come in at the listener: announced tokens, and the secret that nodes share."""

from __future__ import annotations

import os
import socket
from contextlib import closing

import pytest

from dsrun.launcher.control import auth, frames
from dsrun.launcher.control.stream import FrameStream
from dsrun.launcher.head.fleet.authentication import SecretVerifier, TokenVerifier, target
from dsrun.launcher.head.fleet.rejections import NO_PROOF, Rejected
from dsrun.launcher.resources.hostfile import Host
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program


def plan(*names: str, slots: int = 2, script: str = "train.py", **more: str) -> Plan:
    hosts = [Host(name, tuple(range(slots))) for name in names]
    return Plan(lay_out(hosts), Program(script), more.get("launcher", "none"), None, None)


PLAN = plan("a", "b", "c")


def awaited(*names: str, **told: list[tuple[int, object]]) -> TokenVerifier:
    """Nodes of these names are awaited; `entered` and `refused` note who came and who may not."""
    entered, refused = told.get("entered", []), told.get("refused", [])
    return TokenVerifier(
        plan(*names).nodes,
        lambda rank, line: entered.append((rank, line)),
        lambda rank, why: refused.append((rank, why)),
    )


def verdict(who: TokenVerifier | SecretVerifier, credentials: auth.Credentials) -> bool | str:
    """Return what it says to a caller: yes, wait (False), or why not."""
    try:
        return who.verify(credentials)
    except Rejected as error:
        return str(error)


def test_a_token_counts_once_it_is_announced_and_only_the_first() -> None:
    who = awaited("a", "b")
    credentials = auth.Credentials("a", "token")
    assert verdict(who, credentials) is False
    who.announce(0, "a", "token")
    who.announce(0, "a", "forged")
    who.announce(1, "stranger", "token")
    assert verdict(who, credentials) is True
    assert verdict(who, auth.Credentials("a", "forged")) == NO_PROOF
    assert verdict(who, auth.Credentials("b", "token")) is False
    assert verdict(who, auth.Credentials("stranger", "token")) == NO_PROOF


@pytest.mark.parametrize("name", ["b", "0@b", "1@b.cluster", "1@10.0.0.7", "1@else,b"])
def test_a_node_enters_once_under_its_rank(name: str) -> None:
    entered: list[tuple[int, object]] = []
    who = awaited("a", "b", entered=entered)
    who.announce(1, name, "token")
    assert verdict(who, auth.Credentials(name, "token")) is True
    near, far = socket.socketpair()
    with far, closing(FrameStream(fd := near.detach(), fd)) as line:
        who.admit(auth.Credentials(name, "token"), line)  # type: ignore[arg-type]
        assert entered == [(1, line)]
    assert verdict(who, auth.Credentials(name, "token")) == NO_PROOF


TWICE = "two node launchers claim to be a: those started for a and b"


@pytest.mark.parametrize("claims", [("0@a", "1@a"), ("a", "a"), ("0@a", "0@a")])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_node_that_claims_the_place_of_another_is_refused_and_both_are_named(
    claims: tuple[str, str], order: tuple[int, int]
) -> None:
    refused: list[tuple[int, object]] = []
    who = awaited("a", "b", refused=refused)
    for rank in order:
        who.announce(rank, claims[rank], f"token {rank}")
    assert refused == [(1, TWICE)]
    assert verdict(who, auth.Credentials(claims[0], "token 0")) is True
    assert verdict(who, auth.Credentials(claims[1], "token 1")) == NO_PROOF
    assert verdict(who, auth.Credentials("b", "token 1")) is False


def test_a_node_waits_for_the_place_of_another_until_all_have_said_who_they_are() -> None:
    """Open MPI 4 gives the machine where it runs the first task."""
    refused: list[tuple[int, object]] = []
    who = awaited("a", "b", "c", refused=refused)
    who.announce(0, "0@b", "token of b")
    assert verdict(who, auth.Credentials("0@b", "token of b")) is False
    who.announce(2, "2@c", "token of c")
    assert verdict(who, auth.Credentials("0@b", "token of b")) is False
    who.announce(1, "1@a", "token of a")
    for name, token in (("0@b", "token of b"), ("1@a", "token of a"), ("2@c", "token of c")):
        assert verdict(who, auth.Credentials(name, token)) is True
    assert refused == []


NOT_OURS = "its DSRUN_TOKEN differs from node 0's"


class Mute:
    """A line whose frames nobody reads."""

    def send(self, frame: bytes) -> None:
        """Take a frame."""


def proved(node: str, secret: str = "s", pin: str = "pin", other: Plan = PLAN) -> auth.Credentials:
    return auth.Credentials(node, auth.prove(secret, pin, f"node {node}"), auth.digest(other))


@pytest.mark.parametrize(
    ("credentials", "warning"),
    [
        (proved("1"), ""),
        (proved("1", secret="t"), f"node 1: {NOT_OURS}"),
        (proved("1", pin="other"), f"node 1: {NOT_OURS}"),
        (auth.Credentials("2", proved("1").proof, auth.digest(PLAN)), f"node 2: {NOT_OURS}"),
        (proved("3"), f"node 3: {NOT_OURS}"),
        (proved("x" * 99), f"node {'x' * 20}: {NOT_OURS}"),
        (proved("\x1b[2J"), f"node \\x1b[2J: {NOT_OURS}"),
    ],
)
def test_who_shares_the_secret(credentials: auth.Credentials, warning: str) -> None:
    """What a stranger says of itself cannot reach the terminal raw."""
    who = SecretVerifier(PLAN, "s", "pin", lambda _rank, _line: None, pytest.fail)
    assert verdict(who, credentials) == (warning or True)


@pytest.mark.parametrize(
    ("credentials", "fault"),
    [
        (
            proved("0"),
            "two nodes have --node_rank 0: {here} and h2; give each node its own, 0 to 2",
        ),
        (proved("1"), "two nodes have --node_rank 1: h1 and h2; give each node its own, 0 to 2"),
        (
            proved("2", other=plan("a", "b", "c", slots=3)),
            "node 2 (h2) was started with another command line"
            " (hosts, slots and script must be the same on every node)",
        ),
    ],
)
def test_a_node_that_cannot_take_part_is_told_why_and_ends_the_start(
    credentials: auth.Credentials, fault: str
) -> None:
    told: list[str] = []
    who = SecretVerifier(PLAN, "s", "pin", lambda _rank, _line: None, told.append)
    who.admit(proved("1")._replace(host="h1"), Mute())  # type: ignore[arg-type]
    near, far = socket.socketpair()
    assert verdict(who, credentials) is True
    with far:
        who.admit(credentials._replace(host="h2"), FrameStream(fd := near.detach(), fd))  # type: ignore[arg-type]
        ((kind, body),) = frames.Decoder().feed(far.recv(4096))
        assert far.recv(1) == b""
    fault = fault.format(here=os.uname().nodename)
    assert (kind, frames.unpack_json(body)) == (frames.END, {"code": 69, "report": fault})
    assert told == [fault]


def test_the_runner_proves_itself_in_turn() -> None:
    entered: list[int] = []
    who = SecretVerifier(PLAN, "s", "pin", lambda rank, _line: entered.append(rank), pytest.fail)
    near, far = socket.socketpair()
    with far, closing(FrameStream(fd := near.detach(), fd)) as line:
        who.admit(proved("2"), line)  # type: ignore[arg-type]
        ((kind, body),) = frames.Decoder().feed(far.recv(4096))
    assert (kind, body.decode()) == (frames.WELCOME, auth.prove("s", "pin", "runner 2"))
    assert entered == [2]
    assert auth.prove("s", "pin", "runner 2") != auth.prove("s", "pin", "node 2")


def test_where_to_dial() -> None:
    assert target(["10.0.0.1", "fd00::1"], 7) == "10.0.0.1,fd00::1:7"


def test_all_are_here_once_each_has_entered() -> None:
    who = awaited("a", "b")
    for name, complete in (("a", False), ("b", True)):
        assert not who.complete
        who.announce("ab".index(name), name, "token")
        who.admit(auth.Credentials(name, "token"), Mute())  # type: ignore[arg-type]
        assert who.complete is complete


def test_where_nodes_may_return_never_all_are_here() -> None:
    entered: list[int] = []
    who = TokenVerifier(
        plan("a").nodes, lambda rank, _line: entered.append(rank), print, returns=True
    )
    who.announce(0, "a", "token")
    who.admit(auth.Credentials("a", "token"), Mute())  # type: ignore[arg-type]
    assert (entered, who.complete) == ([0], False)


def test_a_token_that_has_come_is_told_with_its_name() -> None:
    refused: list[tuple[int, object]] = []
    who, told = awaited("a", "b", refused=refused), list[str]()
    who.on_token = told.append
    who.announce(0, "a", "token")
    who.announce(0, "a", "again")
    who.announce(1, "stranger", "token")
    who.announce(1, "1@b", "token")
    assert told == ["a", "1@b"]
    assert refused == []


def test_the_place_of_a_node_that_has_entered_is_taken() -> None:
    refused: list[tuple[int, object]] = []
    who = awaited("a", "b", refused=refused)
    who.announce(0, "0@a", "token")
    who.admit(auth.Credentials("0@a", "token"), Mute())  # type: ignore[arg-type]
    who.announce(1, "1@a", "another")
    assert refused == [(1, TWICE)]


def test_a_node_that_is_started_once_more_has_another_token() -> None:
    refused: list[tuple[int, object]] = []
    who = awaited("a", "b", refused=refused)
    who.announce(0, "a", "old")
    who.announce(1, "b", "token")
    who.admit(auth.Credentials("a", "old"), Mute())  # type: ignore[arg-type]
    who.again(0)
    assert verdict(who, auth.Credentials("a", "old")) is False
    assert verdict(who, auth.Credentials("b", "token")) is True
    who.announce(0, "a", "new")
    assert verdict(who, auth.Credentials("a", "old")) == NO_PROOF
    assert verdict(who, auth.Credentials("a", "new")) is True
    assert not who.complete
    assert refused == []


def test_a_token_that_was_not_used_is_forgotten_when_its_node_is_started_once_more() -> None:
    who = awaited("a")
    who.announce(0, "a", "old")
    who.again(0)
    assert verdict(who, auth.Credentials("a", "old")) is False
    who.announce(0, "0@a", "new")
    assert verdict(who, auth.Credentials("0@a", "new")) is True


def test_a_node_that_the_engine_has_put_elsewhere_is_named() -> None:
    refused: list[tuple[int, str]] = []
    who = TokenVerifier(plan("a", "b", "c").nodes, print, lambda *told: refused.append(told))
    assert verdict(who, auth.Credentials("0@b,c", "token")) == NO_PROOF
    assert refused == []
    who.announce(1, "0@b,c", "token")
    ((rank, why),) = refused
    assert rank == 1, "a node speaks for itself alone"
    assert why.startswith("the engine started task 0 on b, but the plan has it on a")


def test_all_nodes_of_a_shared_secret_are_here_once_each_has_entered() -> None:
    who = SecretVerifier(PLAN, "s", "pin", lambda _rank, _line: None, pytest.fail)
    for rank, complete in (("1", False), ("2", True)):
        assert not who.complete
        who.admit(proved(rank), Mute())  # type: ignore[arg-type]
        assert who.complete is complete


def test_a_node_that_is_gone_before_its_welcome_may_come_back() -> None:
    entered: list[int] = []
    who = SecretVerifier(PLAN, "s", "pin", lambda rank, _line: entered.append(rank), pytest.fail)
    near, far = socket.socketpair()
    line = FrameStream(fd := near.detach(), fd)
    far.close()
    who.admit(proved("1"), line)  # type: ignore[arg-type]
    assert line.read_fd == -1, "it is closed"
    who.admit(proved("1"), Mute())  # type: ignore[arg-type]
    assert entered == [1]


def test_what_a_node_says_of_itself_is_shown_in_few_words() -> None:
    told: list[str] = []
    who = SecretVerifier(PLAN, "s", "pin", lambda _rank, _line: None, told.append)
    for host in ("x" * 100, "y\x1b[2J" + "y" * 100):
        near, far = socket.socketpair()
        with far:
            line = FrameStream(fd := near.detach(), fd)
            who.admit(proved("1")._replace(host=host), line)  # type: ignore[arg-type]
            line.close()
    first, second = "x" * 64, "y\\x1b[2J" + "y" * 59
    assert told == [
        f"two nodes have --node_rank 1: {first} and {second}; give each node its own, 0 to 2"
    ]
