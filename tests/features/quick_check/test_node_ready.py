"""The program that waits for servers: real sockets of this machine, and what it prints."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import USAGE
from dsrun.launcher.features.quick_check import node_ready as ready_program
from dsrun.launcher.node.programs import command_line

from ...support.clock import Clock
from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HERE, NOWHERE = "127.0.0.1", "127.0.0.99"


class Asked:
    """The program with one request; at the end it is killed if it still runs."""

    def __init__(self, kind: str, *servers: tuple[list[str], int], path: str = "") -> None:
        self.process = subprocess.Popen(
            command_line("ready"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"http_proxy": "http://127.0.0.1:1"},
        )
        assert self.process.stdin is not None
        request = {"kind": kind, "path": path, "servers": servers}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def line(self) -> dict[str, Any]:
        """The next line that it prints."""
        assert self.process.stdout is not None
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told

    def ends(self) -> int:
        """Its exit code."""
        return self.process.wait(HANG)


class Health(BaseHTTPRequestHandler):
    """Answers 200 once the server is healthy."""

    def do_GET(self) -> None:
        path, healthy = self.path, getattr(self.server, "healthy", False)
        self.send_response(404 if path != "/health" else 200 if healthy else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    """A server that is not healthy yet."""
    with HTTPServer((HERE, 0), Health) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server((HERE, 0)) as listener:
        yield listener


@pytest.fixture
def closed_port() -> int:
    with socket.create_server((HERE, 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_port_that_accepts(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    with Asked("port", ([NOWHERE, HERE], port)) as asked:
        told = asked.line()
        if "why" in told:
            assert told == {"server": 0, "why": f"{NOWHERE}:{port}: connection refused"}
            told = asked.line()
        assert told == {"server": 0, "answered": [1]}
        assert asked.ends() == 0


def test_a_port_that_accepts_later(closed_port: int) -> None:
    with Asked("port", ([HERE], closed_port)) as asked:
        why = {"server": 0, "why": f"{HERE}:{closed_port}: connection refused"}
        assert asked.line() == why
        with socket.create_server((HERE, closed_port)):
            assert asked.line() == {"server": 0, "answered": [0]}
            assert asked.ends() == 0


def test_a_path_that_answers_200_later(server: HTTPServer) -> None:
    with Asked("http", ([HERE], server.server_port), path="/health") as asked:
        assert asked.line()["why"].endswith(": /health answers 503")
        server.healthy = True  # type: ignore[attr-defined]
        assert asked.line() == {"server": 0, "answered": [0]}
        assert asked.ends() == 0


def test_what_does_not_speak_http_is_not_ready(listener: socket.socket) -> None:
    with Asked("http", ([HERE], listener.getsockname()[1]), path="/") as asked:
        connection, _ = listener.accept()
        connection.sendall(b"220 mail\r\n")
        connection.close()
        assert asked.line()["why"].endswith(": / answers something other than HTTP")


@pytest.mark.parametrize(
    "line",
    [
        *(
            b"HTTP/1.1 2009999 OK\r\n",
            b"HTTP/1.1 200OK\r\n",
            b"HTTP/1.1 20\r\n",
            b"HTTP/1. 200\r\n",
        ),
        *(
            b"HTTP/1.1  200 OK\r\n",
            b"HTTP/1.12 200 OK\r\n",
            b"HTTP/2 200\r\n",
            b"XHTTP/1.1 200\r\n",
        ),
        b"HTTP/1.1 200" + b"9" * 300,
    ],
)
def test_what_only_begins_like_200_is_not_ready(listener: socket.socket, line: bytes) -> None:
    with Asked("http", ([HERE], listener.getsockname()[1]), path="/") as asked:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(line)
        assert asked.line()["why"].endswith(": / answers something other than HTTP")


@pytest.mark.parametrize(
    "line", [b"HTTP/1.1 200\r\n", b"HTTP/1.0 200 \r\n", b"HTTP/1.0 200 OK\n\n"]
)
def test_a_status_needs_no_reason(listener: socket.socket, line: bytes) -> None:
    with Asked("http", ([HERE], listener.getsockname()[1]), path="/") as asked:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(line)
        assert asked.line() == {"server": 0, "answered": [0]}


def test_all_servers_are_waited_for(listener: socket.socket, closed_port: int) -> None:
    port = listener.getsockname()[1]
    with Asked("port", ([HERE], closed_port), ([HERE], port)) as asked:
        told = [asked.line(), asked.line()]
        assert {"server": 1, "answered": [0]} in told
        with socket.create_server((HERE, closed_port)):
            assert asked.line() == {"server": 0, "answered": [0]}
            assert asked.ends() == 0


def test_a_machine_that_refuses_is_reached(closed_port: int) -> None:
    with Asked("reach", ([HERE], closed_port)) as asked:
        assert asked.line() == {"server": 0, "answered": [0]}


def test_names_are_resolved(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    with Asked("port", (["no.such.name.invalid", "localhost"], port)) as asked:
        lines = [asked.line()]
        while "why" in lines[-1]:
            lines.append(asked.line())
        assert lines[-1] == {"server": 0, "answered": [1]}


def test_a_file_that_comes_later(tmp_path: Path) -> None:
    with Asked("file", path=str(tmp_path / "there")) as asked:
        (tmp_path / "there").touch()
        assert asked.line() == {"server": 0, "answered": []}
        assert asked.ends() == 0


def test_a_request_that_is_none() -> None:
    given = subprocess.run(
        command_line("ready"), input="?\n", text=True, capture_output=True, check=False
    )
    assert given.returncode == USAGE
    assert given.stderr.startswith("ready: expected a request as JSON")


def test_an_answer_without_an_end_is_read_for_a_while_only(
    listener: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    server = ready_program.Server(0, clock.loop, lambda: None)
    ready_program.ServerTrial(clock.loop, server, 0, "http", "/").start(*listener.getsockname())
    theirs, _ = listener.accept()
    with theirs:
        clock.settle()
        assert theirs.recv(4096).startswith(b"GET / HTTP/1.1\r\n")
        theirs.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        clock.settle()
        clock.go(ready_program.BETTER)
        assert capsys.readouterr().out == '{"server": 0, "answered": [0]}\n'
        theirs.sendall(b"more")
        clock.settle()
        clock.go(ready_program.PATIENCE)
        theirs.setblocking(False)
        assert theirs.recv(1) == b""
