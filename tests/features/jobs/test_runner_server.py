"""The server of local control: requests and answers, and whatever strangers and careless do."""

from __future__ import annotations

import os
import random
import resource
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import NodeError, UsageError
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames, local
from dsrun.launcher.features.jobs import runner_server as server
from dsrun.launcher.features.jobs.runner_server import LocalCaller, LocalServer

from ...support.clock import Clock
from ...support.leaks import open_files
from ...support.local_control import NOBODY, Served, ended, needs_root, received, request
from ...support.own_names import own_names

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["own_names"]

pytestmark = pytest.mark.usefixtures("own_names")

BIG = b"x" * (8 << 20)
"""More than a socket's buffers hold."""


class Verbs:
    """What a test's server does, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.callers: list[LocalCaller] = []
        self.closed = 0

    def table(self) -> dict[str, server.Verb]:
        return {
            "echo": self.echo,
            "later": self.later,
            "fail": self.fail,
            "crash": self.crash,
            "read": self.read,
        }

    def echo(self, caller: LocalCaller, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        assert not fds
        self.callers.append(caller)
        self.asked.append(message.get("text"))
        return {"text": message.get("text")}

    def later(self, caller: LocalCaller, message: dict[str, Any], fds: list[int]) -> None:
        assert not fds
        self.callers.append(caller)
        self.asked.append(message)
        caller.on_close.append(self.on_close)

    def on_close(self) -> None:
        self.closed += 1

    def fail(self, caller: LocalCaller, message: dict[str, Any], fds: list[int]) -> None:
        raise NodeError(f"no such node ({message['id']}, {len(fds)}, {caller.open})")

    def crash(self, caller: LocalCaller, message: dict[str, Any], fds: list[int]) -> None:
        assert caller.open
        assert message["no such field"] == fds

    def read(self, caller: LocalCaller, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        assert (caller.open, message["fds"]) == (True, len(fds))
        texts = [os.read(fd, 99).decode() for fd in fds]
        for fd in fds:
            os.close(fd)
        return {"texts": texts}


@pytest.fixture
def verbs() -> Verbs:
    return Verbs()


@pytest.fixture
def served(verbs: Verbs) -> Iterator[Served]:
    made = Served(verbs.table())
    yield made
    made.server.close()


def test_each_request_is_answered_with_its_number(served: Served) -> None:
    with served.call() as line:
        sent = request(do="echo", id=1, text="a") + request(do="echo", id="x", text="é ☃ \udcff")
        assert served.serve(line, sent) == [
            (frames.ANSWER, {"ok": True, "text": "a", "id": 1}),
            (frames.ANSWER, {"ok": True, "text": "é ☃ \udcff", "id": "x"}),
        ]
        assert served.serve(line, request(do="echo")) == [
            (frames.ANSWER, {"ok": True, "text": None, "id": None})
        ]


def test_requests_in_pieces(served: Served, verbs: Verbs) -> None:
    sent = request(do="echo", text="slow")
    with served.call() as line:
        answers = served.serve(line, *(sent[at : at + 1] for at in range(len(sent))))
        assert [message["text"] for _, message in answers] == ["slow"]
    assert verbs.asked == ["slow"]


def test_answers_that_come_later(served: Served, verbs: Verbs) -> None:
    with served.call() as line:
        sent = [request(do="later", id=number) for number in (1, 2, 3)]
        assert served.serve(line, *sent, request(do="echo", id=4, text="")) == [
            (frames.ANSWER, {"ok": True, "text": "", "id": 4})
        ]
        caller = verbs.callers[0]
        caller.answer({"a": 1}, verbs.asked[1])
        caller.answer({"a": 1}, verbs.asked[1])
        caller.refuse(UsageError("not now"))
        caller.answer({"a": 3})
        caller.answer({"a": 4})
        assert received(line) == [
            (frames.ANSWER, {"ok": True, "a": 1, "id": 2}),
            (frames.ANSWER, {"ok": False, "error": "not now", "code": 2, "id": 1}),
            (frames.ANSWER, {"ok": True, "a": 3, "id": 3}),
        ]


def test_errors_are_answers(served: Served, unexpected_faults: list[Exception]) -> None:
    with served.call() as line:
        answers = served.serve(line, request(do="fail", id=7), request(do="crash", id=8))
        assert [message for _, message in answers] == [
            {"ok": False, "error": "no such node (7, 0, True)", "code": 69, "id": 7},
            {
                "ok": False,
                "error": "this is a bug in dsrun: KeyError: 'no such field'",
                "code": 70,
                "id": 8,
            },
        ]
        assert served.serve(line, request(do="echo", text="still here"))
    [(level, traceback)] = served.logged
    assert (level, traceback.split("\n")[-1]) == ("debug", "KeyError: 'no such field'")
    unexpected_faults.clear()


def test_what_fails_on_the_way_to_a_later_answer_is_the_answer(
    served: Served, verbs: Verbs, unexpected_faults: list[Exception]
) -> None:
    with served.call() as line:
        served.serve(line, request(do="later", id=1), request(do="later", id=2))
        for verb, asked in zip((verbs.fail, verbs.crash), verbs.asked, strict=True):
            caller = verbs.callers[0]
            caller.bounded(lambda: verb(caller, asked, []), asked)()  # noqa: B023
        answers = served.serve(line, request(do="echo", id=3))
    assert [(one["id"], one.get("error")) for _, one in answers] == [
        (1, "no such node (1, 0, True)"),
        (2, "this is a bug in dsrun: KeyError: 'no such field'"),
        (3, None),
    ]
    unexpected_faults.clear()


@pytest.mark.parametrize("verb", [None, 3, [], {}, "", "no", "x" * 5000, "__init__", "\0"])
def test_unknown_verbs(served: Served, verb: object) -> None:
    with served.call() as line:
        ((_, message),) = served.serve(line, request(do=verb))
        assert (message["ok"], message["code"]) == (False, 2)
        assert message["error"].endswith("expected one of echo, later, fail, crash, read")
        assert len(message["error"]) < 200


@pytest.mark.parametrize("number", [[], {}, {"a": [1]}, "x" * 5000, -1, 1.5, True])
def test_any_number_of_a_request_is_returned(served: Served, number: object) -> None:
    with served.call() as line:
        assert served.serve(line, request(do="echo", id=number))[0][1]["id"] == number


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 100,
        b"\0" * 5,
        frames.pack(frames.REQUEST, b"{"),
        frames.pack(frames.REQUEST, b"[]"),
        frames.pack(frames.REQUEST, b"\xff\xfe"),
        frames.pack(frames.REQUEST, b"[" * 100_000),
        frames.pack(frames.REQUEST, b'{"do": 1e999, "id": NaN}'),
        frames.pack(frames.REQUEST, b'{"id": ' + b"9" * 5000 + b"}"),
        frames.pack(frames.ANSWER, b"{}"),
        frames.pack(frames.JOB, b"{}"),
        b"\x46\xff\xff\xff\xff",
        b"\x46\x04\x00\x00\x01" + b" " * 1000,
        request(do="echo", fds=1),
        request(do="echo", fds=-1),
        request(do="echo", fds=True),
        request(do="echo", fds="1"),
        request(do="echo", fds=1 << 40),
    ],
)
def test_garbage_ends_only_its_own_connection(served: Served, verbs: Verbs, garbage: bytes) -> None:
    with served.call() as other, served.call() as line:
        served.serve(other, request(do="echo"))
        line.sendall(garbage)
        served.run()
        assert ended(line)
        assert served.serve(other, request(do="echo", text="whole"))[0][1]["text"] == "whole"
    assert verbs.asked == [None, "whole"]


def test_who_leaves_in_the_middle_is_no_matter(served: Served, verbs: Verbs) -> None:
    for sent in (b"", b"\x46", request(do="echo")[:9], request(do="later"), request(do="echo")):
        with served.call() as line:
            line.sendall(sent)
        served.run()
    assert (verbs.closed, len(served.server.callers)) == (1, 0)
    verbs.callers[0].answer({})
    verbs.callers[0].event({})
    verbs.callers[0].chunk(b"", lambda: pytest.fail("nobody has read it"))


def test_who_sends_nothing_is_dropped(verbs: Verbs) -> None:
    clock = Clock()
    served = Served(verbs.table(), loop=clock.loop)
    with (
        closing(served.server),
        served.call() as silent,
        served.call() as slow,
        served.call() as busy,
    ):
        slow.sendall(request(do="echo")[:7])
        busy.sendall(request(do="later"))
        clock.settle()
        clock.go(server.PATIENCE - 0.01)
        assert len(served.server.callers) == 3
        clock.go(0.01)
        assert (ended(silent), ended(slow)) == (True, True)
        assert served.serve(busy, request(do="echo", text="here"))[0][1]["text"] == "here"


def test_callers_are_limited(served: Served) -> None:
    with ExitStack() as stack:
        lines = [stack.enter_context(served.call()) for _ in range(server.MOST_CALLERS + 3)]
        for _ in lines:
            served.run()
        assert [ended(line) for line in lines[server.MOST_CALLERS :]] == [True] * 3
        assert served.serve(lines[0], request(do="echo"))
    served.run()
    with served.call() as line:
        assert served.serve(line, request(do="echo"))


def test_descriptors_reach_the_verb_of_their_request(served: Served) -> None:
    with served.call() as line:
        read_fd, write_fd = os.pipe()
        os.write(write_fd, b"piped")
        socket.send_fds(
            line, [request(do="echo", id=1) + request(do="read", id=2, fds=1)], [read_fd]
        )
        os.close(read_fd)
        os.close(write_fd)
        answers = served.serve(line, b"")
        assert [message.get("texts") for _, message in answers] == [None, ["piped"]]


@pytest.mark.parametrize("verb", ["fail", "crash", "unknown"])
def test_descriptors_of_a_failed_request_are_closed(
    served: Served, verb: str, unexpected_faults: list[Exception]
) -> None:
    with served.call() as line:
        served.run()
        before = open_files()
        socket.send_fds(line, [request(do=verb, fds=2)], [0, 1])
        assert not served.serve(line, b"")[0][1]["ok"]
        assert open_files() == before
    unexpected_faults.clear()  # of the verb


def test_events_and_chunks(served: Served, verbs: Verbs) -> None:
    written: list[int] = []
    with served.call() as line:
        served.serve(line, request(do="later", id=1))
        (caller,) = verbs.callers
        caller.event({"event": "started", "ranks": 2})
        caller.chunk(b"\0\xff", lambda: written.append(1))
        assert received(line) == [
            (frames.EVENT, {"event": "started", "ranks": 2}),
            (frames.CHUNK, b"\0\xff"),
        ]
        caller.chunk(BIG, lambda: written.append(2))
        assert (written, caller.pending > 0) == ([1], True)
        size = 0
        while size < len(BIG):
            size += len(line.recv(1 << 20))
            served.run()
        assert (written, caller.pending) == ([1, 2], 0)


def test_a_caller_that_does_not_read_is_dropped(
    served: Served, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsrun.launcher.control.connection.UNREAD", 16 << 20)
    with served.call() as line:
        served.serve(line, request(do="later"))
        (caller,) = verbs.callers
        for _ in range(4):
            caller.chunk(BIG)
        assert (caller.open, verbs.closed) == (False, 1)


def test_a_caller_can_be_closed_by_its_verb(served: Served, verbs: Verbs) -> None:
    with served.call() as line:
        served.serve(line, request(do="later"))
        verbs.callers[0].close()
        verbs.callers[0].close()
        assert (ended(line), verbs.closed, len(served.server.callers)) == (True, 1, 0)


def test_a_connected_socket_has_one_caller(verbs: Verbs) -> None:
    near, far = socket.socketpair()
    loop = Loop()
    with far, closing(LocalServer(loop, near, verbs.table())) as served:
        far.sendall(request(do="later", id=1) + request(do="echo", id=2, text="x"))
        loop.call_later(0.05, loop.stop)
        loop.run()
        assert received(far) == [(frames.ANSWER, {"ok": True, "text": "x", "id": 2})]
        far.close()
        loop.call_later(0.05, loop.stop)
        loop.run()
        assert (verbs.closed, len(served.callers)) == (1, 0)


def test_a_server_that_is_closed_leaves_nothing(verbs: Verbs) -> None:
    loop = Loop()
    before = open_files()
    served = Served(verbs.table(), loop=loop)
    with served.call() as line:
        served.serve(line, request(do="later"))
        served.server.close()
        served.server.close()
        served.run()
        assert (ended(line), verbs.closed) == (True, 1)
    with pytest.raises(ConnectionRefusedError):
        served.call().close()
    assert open_files() == before


def test_whatever_is_sent_the_server_goes_on(
    served: Served, unexpected_faults: list[Exception]
) -> None:
    """Damaged requests, with and without descriptors, on many connections."""
    chance = random.Random(5)
    before = open_files()
    whole = request(do="echo", id=1, text="x") + request(do="read", id=2, fds=0) + request(do="no")
    with served.call() as good:
        served.serve(good, request(do="echo", text="in time"))  # it may wait with the next ones
        for _ in range(1500):
            damaged = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(len(damaged))
                damaged[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
            with served.call() as line:
                fds = [0] * chance.choice([0, 0, 1, 3])
                socket.send_fds(line, [bytes(damaged)], fds)
                served.run()
        assert served.serve(good, request(do="echo", text="whole"))[0][1]["text"] == "whole"
    served.run()
    unexpected_faults.clear()  # of the verbs
    assert (len(served.server.callers), open_files()) == (0, before)


def test_a_server_without_free_descriptors_accepts_later(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REST", 0.05)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with served.call() as line:
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
        try:
            served.run()
            assert not served.server.callers
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        line.sendall(request(do="echo", text="waited"))
        served.run(0.1)
        assert received(line)[0][1]["text"] == "waited"


STRANGER = """
import os, socket, sys
os.setgid({nobody})
os.setuid({nobody})
answers = []
for _ in range(200):
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(120)
        try:
            line.connect("\\0" + sys.argv[1])
            line.sendall(bytes.fromhex(sys.argv[2]))
            socket.send_fds(line, [b"x"], [0])
            answers.append(line.recv(99))
        except OSError:
            pass
sys.stdout.write(repr(set(answers) - {{b""}}))
"""


@needs_root
def test_another_user_is_not_heard(served: Served, verbs: Verbs) -> None:
    source = STRANGER.format(nobody=NOBODY)
    argv = [local.address(served.kind, served.name), request(do="echo", text="stranger").hex()]
    before = open_files()
    with subprocess.Popen([sys.executable, "-c", source, *argv], stdout=subprocess.PIPE) as process:
        assert process.stdout
        served.loop.add_reader(process.stdout.fileno(), served.loop.stop)
        served.loop.run()
        served.loop.remove(process.stdout.fileno())
        assert process.stdout.read().decode() == "set()"
    assert (process.returncode, verbs.asked) == (0, [])
    with served.call() as line:
        assert served.serve(line, request(do="echo", text="me"))[0][1]["text"] == "me"
    served.run()
    assert open_files() == before
