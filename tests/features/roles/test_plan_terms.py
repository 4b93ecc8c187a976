"""When roles start, when they are ready, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.roles.plan_table import RoleTable
from dsrun.launcher.features.roles.plan_terms import Terms, terms
from dsrun.launcher.specs.roles import Ready

from .written import table

SERVER = table("server", "serve", ends="never", ports="http,grpc")


def fault(*tables: RoleTable) -> str:
    with pytest.raises(UsageError) as caught:
        terms(tables)
    return str(caught.value)


def ready(**values: Any) -> Ready:
    return terms([table(**values)])["trainer"].ready


def test_what_is_not_written_has_a_default() -> None:
    expected = Terms("job", (), Ready(), (), "job", 3)
    assert terms([table()]) == {"trainer": expected}


def test_what_is_written_counts() -> None:
    one = table(
        ends="wait",
        after="server,server",
        ports="a,b_2",
        on_failure="restart",
        max_restarts=0,
        ready="port:b_2",
        ready_timeout=5.0,
    )
    assert terms([one, SERVER])["trainer"] == Terms(
        "wait", ("server",), Ready("port", "b_2", timeout=5.0), ("a", "b_2"), "restart", 0
    )


@pytest.mark.parametrize(
    ("text", "ports", "expected"),
    [
        ("started", "", Ready()),
        ("port:a", "a,b", Ready("port", "a")),
        ("http:/health", "a", Ready("http", "a", "/health")),
        ("http:/health", "a,http", Ready("http", "http", "/health")),
        ("http:b/v1/models?x=1", "a,b", Ready("http", "b", "/v1/models?x=1")),
        (
            "line:Uvicorn running on .*:[0-9]+",
            "",
            Ready("line", "", "Uvicorn running on .*:[0-9]+"),
        ),
        ("file:/tmp/ready", "", Ready("file", "", "/tmp/ready")),
    ],
)
def test_ready(text: str, ports: str, expected: Ready) -> None:
    assert ready(ready=text, ports=ports) == expected


EXPECTED = "expected started, port:NAME, http:PATH, http:NAME/PATH, line:REGEX or file:PATH"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"ready": "soon"}, f"f:ready: {EXPECTED}, not 'soon'"),
        ({"ready": "started:x"}, f"f:ready: {EXPECTED}, not 'started:x'"),
        ({"ready": "port:"}, f"f:ready: {EXPECTED}, not 'port:'"),
        ({"ready": "file"}, f"f:ready: {EXPECTED}, not 'file'"),
        ({"ready": ""}, f"f:ready: {EXPECTED}, not ''"),
        (
            {"ready": "http:/h"},
            'f:ready: can never be true: the role reserves no port; add ports = ["http"]',
        ),
        (
            {"ready": "port:x"},
            'f:ready: can never be true: the role reserves no port; add ports = ["x"]',
        ),
        (
            {"ready": "port:htp", "ports": "http,grpc"},
            "f:ready: can never be true: no port htp (did you mean http?); expected http or grpc",
        ),
        ({"ready": "http:health", "ports": "a"}, "f:ready: expected a path, such as http:/health"),
        (
            {"ready": "http:/h", "ports": "a,b"},
            "f:ready: which port? write http:NAME/PATH with a or b",
        ),
        ({"ready": "line:("}, "f:ready: '(': not a regular expression: missing )"),
        (
            {"ready": "line:x", "redirects": "3"},
            "f:ready: can never be true: no output reaches dsrun with redirects 3",
        ),
        ({"ends": None}, "f:ends: ends is missing; expected"),
        ({"ends": "never"}, "f:ends: all roles have ends = never, so the job never ends"),
        ({"ports": "a,a"}, "f:ports: a name is listed twice"),
        ({"ports": "A"}, "f:ports: 'A' is not a name"),
        ({"after": "trainer"}, "f:after: a role cannot start after itself"),
        ({"after": "x"}, "f:after: no role x; there is no other role"),
    ],
)
def test_terms_that_are_not_valid(values: dict[str, Any], expected: str) -> None:
    assert fault(table(**values)).startswith(expected)


@pytest.mark.parametrize("name", ["", "A", "1a", "a-b", "ä", "a b", "a" * 65])
def test_names_that_are_not_valid(name: str) -> None:
    assert "is not a name: expected a lower-case letter" in fault(table(name))


@pytest.mark.parametrize("name", ["port", "port_x"])
def test_names_that_mean_something_else(name: str) -> None:
    assert f"a role cannot be called {name}" in fault(table(name))


def test_two_roles_of_one_name() -> None:
    assert fault(table(), table()) == ("f:trainer: this name is already taken by f:trainer")


def test_roles_that_wait_for_each_other() -> None:
    tables = [
        table("a", after="b"),
        table("b", after="c,d"),
        table("c"),
        table("d", after="b"),
    ]
    assert fault(*tables) == ("f:after: roles wait for each other, so none can start: b -> d -> b")
    diamond = [table("a", after="b,c"), table("b", after="d"), table("c", after="d"), table("d")]
    assert list(terms(diamond)) == ["a", "b", "c", "d"]


def test_a_long_chain_of_roles() -> None:
    chain = [table(f"r{at}", after=f"r{at + 1}") for at in range(3000)]
    assert "roles wait" in fault(*chain, table("r3000", after="r0"))
    assert len(terms([*chain, table("r3000")])) == 3001


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("{port.http}", "f:program: {port.http}: no port http; the role reserves no port"),
        (
            "{sever.addrs}",
            "f:program: {sever.addrs}: no role sever (did you mean server?); the roles are trainer,"
            " server",
        ),
        (
            "{trainer.addrs}",
            "f:program: {trainer.addrs}: trainer reserves no port; add ports to it",
        ),
        (
            "{server.addr}",
            "f:program: {server.addr}: no such value; a role has {server.hosts} or {server.addrs}",
        ),
        (
            "http://{Server.addrs}/v1",
            "f:program: {Server.addrs}: no such value; a role has {server.hosts} or {server.addrs}",
        ),
        (
            "{trainer.host}",
            "f:program: {trainer.host}: no such value; a role has {trainer.hosts}; {trainer.addrs}"
            " once it reserves ports",
        ),
        ("{port.HTTP}", "f:program: {port.HTTP}: no port HTTP; the role reserves no port"),
    ],
)
def test_placeholders_that_mean_nothing(word: str, expected: str) -> None:
    assert fault(table("trainer", "train.py", word), SERVER) == expected
    in_env = table("trainer", export=("PLAIN", f"NAME=x{word}"))
    assert fault(in_env, SERVER) == expected.replace("f:program", "f:export")


def test_placeholders_that_mean_something() -> None:
    known = ("train.py", "{server.addrs}", "{trainer.hosts}", "{}", '{"a": 1}', "{x.y}")
    words = (*known, "${server.addr}", "{ports.http}", "{server}", "{server.1}", "{a.b.c}")
    assert terms([table("trainer", *words), SERVER]).keys() == {"trainer", "server"}
