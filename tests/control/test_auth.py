"""How the two ends of a dialled line show each other who they are."""

from __future__ import annotations

import os

import pytest

from dsrun.launcher.control import auth
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program


def plan(*names: str, slots: int = 2, script: str = "train.py", launcher: str = "none") -> Plan:
    hosts = [Host(name, tuple(range(slots))) for name in names]
    return Plan(lay_out(hosts), Program(script), launcher, None, None)


PLAN = plan("a", "b", "c")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (auth.announcement("w0", "tok"), ("w0", "tok")),
        (f" {auth.announcement('fe80::1', 'a-b_c')}\r", ("fe80::1", "a-b_c")),
        (f"w0: {auth.announcement('w0', 'tok')}", None),
        (f"[1] {auth.announcement('w0', 'tok')}", None),
        ("DSRUN-TOKEN w0", None),
        ("DSRUN-TOKEN w0 tok more", None),
        ("DSRUN w0 tok", None),
        ("", None),
    ],
)
def test_announcements(line: str, found: tuple[str, str] | None) -> None:
    assert auth.parse_announcement(line) == found


def test_tokens_are_long_different_and_fit_for_a_line() -> None:
    tokens = {auth.new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) == 43 and token.split() == [token] for token in tokens)


def test_a_proof_is_of_secret_certificate_and_role() -> None:
    proof = auth.prove("s", "f", "node 1")
    # HMAC-SHA-256 (RFC 2104) of "dsrun node 1 f" under "s", by openssl.
    assert proof == "0336e1479f3eca482f829182ee509d807e8f2968894c991b16398d183e89f66b"
    others = [
        ("t", "f", "node 1"),
        ("s", "g", "node 1"),
        ("s", "f", "runner 1"),
        ("", "f", "node 1"),
    ]
    assert proof not in {auth.prove(*other) for other in others}
    assert auth.same(proof, auth.prove("s", "f", "node 1"))
    assert not auth.same(proof, proof[:-1])
    assert not auth.same(proof, "é")


def test_what_two_runs_of_one_command_line_share() -> None:
    assert auth.digest(PLAN) == auth.digest(plan("a", "b", "c", launcher="ssh"))
    others = [plan("a", "b"), plan("a", "c", "b"), plan("a", "b", "c", slots=1)]
    others += [plan("a", "b", "c", script="x"), plan("a", "b", "c", script="\udcff")]
    assert len({auth.digest(one) for one in [PLAN, *others]}) == 6


def test_the_credentials_of_a_node_without_ssh() -> None:
    proof = auth.prove("secret", "pin", "node 2")
    expected = auth.Credentials("2", proof, auth.digest(PLAN), os.uname().nodename)
    assert auth.credentials("2", "secret", "pin", PLAN) == expected
