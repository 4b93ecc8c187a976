"""dsrun-scale and the job that it asks: what either makes of a stranger at the other end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.commands import scale
from dsrun.launcher.common.errors import DsrunError, NodeError, UsageError
from dsrun.launcher.common.loop import READ, Loop
from dsrun.launcher.head.elastic import scale_socket

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = "65534"

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")

LISTEN = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.bind("\\0" + sys.argv[1])
door.listen()
print("here", flush=True)
sys.stdin.read()
"""

ASK = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line.connect("\\0" + sys.argv[1])
try:
    line.send(b'{"nodes": 2}')
    sys.stdout.buffer.write(line.recv(99))
except OSError:
    pass
"""


def new_job() -> str:
    return f"20261122-010203-{os.urandom(3).hex()}"


class Asked:
    """A job that is asked: its loop, and the sizes that it was given."""

    def __init__(self) -> None:
        self.id = new_job()
        self.loop = Loop()
        self.door = scale_socket.door(self.id)
        self.sizes: list[int] = []
        scale_socket.Requests(self.loop, self.door, self._resize)

    def _resize(self, nodes: int) -> str:
        if nodes > 4:
            raise DsrunError(f"not {nodes}")
        self.sizes.append(nodes)
        return f"now {nodes}"

    def run(self, seconds: float = 0.0) -> None:
        """Let the loop do what there is to do."""
        for wait in (seconds, 0.0):
            self.loop.after(wait, self.loop.stop)
            self.loop.run()

    def call(self) -> socket.socket:
        """Return a line to the job."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.settimeout(5)
        line.connect(f"\0{scale_socket.name(self.id)}")
        return line

    def answer(self, request: bytes) -> Any:
        """Return what somebody hears who asks this."""
        with self.call() as line:
            line.send(request)
            self.run()
            return json.loads(line.recv(scale_socket.LIMIT))


@pytest.fixture
def asked() -> Iterator[Asked]:
    job = Asked()
    with job.door:
        yield job


# -- the job ------------------------------------------------------------------------------------


def test_a_job_takes_a_number_and_says_what_follows(asked: Asked) -> None:
    assert asked.answer(b'{"nodes": 3}') == {"done": True, "words": "now 3"}
    assert asked.answer(b'{"nodes": 5}') == {"done": False, "words": "not 5"}
    assert asked.sizes == [3]


@pytest.mark.parametrize(
    "request_",
    [
        b"{}",
        b"[3]",
        b"3",
        b"null",
        b'"nodes"',
        b'{"nodes": 1e999}',
        b'{"nodes": NaN}',
        b'{"nodes": -1}',
        b'{"nodes": true}',
        b'{"nodes": "3"}',
        b'{"nodes": [3]}',
        b'{"nodes": 2.0}',
        b'{"nodes": 3}\n{"nodes": 3}',
        b'{"nodes": 3',
        b'{"nodes": 99999999999999999999}',
        b'{"nodes": ' + b"9" * 4000 + b"}",
        b'{"nodes": 3' + b" " * scale_socket.LIMIT + b"}",
        b'{"nodes": ' + b"[" * 4000,
        b"\xff\xfe\xd8",
        b"\0",
    ],
)
def test_a_request_that_cannot_be_meant_is_answered_and_changes_nothing(
    asked: Asked, request_: bytes
) -> None:
    answer = asked.answer(request_)
    assert (answer["done"], answer["words"][:17]) == (False, "invalid request: ")
    assert asked.answer(b'{"nodes": 2}') == {"done": True, "words": "now 2"}
    assert asked.sizes == [2]


def test_who_leaves_without_waiting_is_no_matter(asked: Asked) -> None:
    with asked.call():
        asked.run()
    with asked.call() as line:
        line.send(b'{"nodes": 1}')
    asked.run()
    assert asked.answer(b'{"nodes": 2}') == {"done": True, "words": "now 2"}
    assert asked.sizes == [1, 2]


def test_who_says_nothing_is_let_go(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_socket, "PATIENCE", 0.05)
    with asked.call() as line:
        asked.run(0.2)
        assert line.recv(1) == b""


def test_silent_callers_are_few(asked: Asked) -> None:
    with ExitStack() as stack:
        lines = [stack.enter_context(asked.call()) for _ in range(scale_socket.AT_ONCE + 3)]
        for _ in lines:
            asked.run()
        assert [line.recv(1) for line in lines[scale_socket.AT_ONCE :]] == [b""] * 3
        lines[0].send(b'{"nodes": 1}')
        asked.run()
        assert json.loads(lines[0].recv(scale_socket.LIMIT))["done"]
    asked.run()


@needs_root
def test_another_user_is_not_heard(asked: Asked) -> None:
    argv = [sys.executable, "-c", ASK, scale_socket.name(asked.id), NOBODY]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout
        asked.loop.watch(process.stdout.fileno(), READ, asked.loop.stop)
        asked.loop.run()
        assert process.stdout.read() == b""
    assert (process.returncode, asked.sizes) == (0, [])


# -- dsrun-scale --------------------------------------------------------------------------------


def listed(capfdbinary: pytest.CaptureFixture[bytes]) -> set[bytes]:
    assert scale.run([]) == 0
    return set(capfdbinary.readouterr().out.splitlines())


def test_only_names_that_are_a_jobs_are_listed(
    asked: Asked, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A name may have any character in it; the kernel lists line ends as they are."""
    fake = new_job()
    names = [
        "\x1b]0;title\x07",
        "x",
        f"{fake}x",
        "x\n\nx",
        f"x\n0: 0 0 0 1 0 0 @{scale_socket.name(fake)}",
        "\u0662\u0660261122-010203-0a1b2c",
    ]
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(scale_socket.door(name))
        jobs = listed(capfdbinary)
    assert asked.id.encode() in jobs
    assert listed(capfdbinary) == jobs


@needs_root
def test_sockets_of_other_users_are_no_jobs(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    job = new_job()
    argv = [sys.executable, "-c", LISTEN, scale_socket.name(job), NOBODY]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"here\n"
        assert job.encode() not in listed(capfdbinary)
        with pytest.raises(UsageError, match=f"no elastic job {job} here"):
            scale.run([job, "2"])


@pytest.mark.parametrize("number", ["", "x", "-1", "1e9", "²", "1" * 5000, "2 "])
def test_what_is_no_number_of_nodes(number: str) -> None:
    with pytest.raises(UsageError, match="is no number of nodes"):
        scale.run([new_job(), number])


@pytest.mark.parametrize("job", ["", "x", "x" * 5000, "\udcff", "\x1b[2J", "../x", "{}\n"])
def test_what_is_no_job(job: str) -> None:
    with pytest.raises(UsageError, match="no elastic job"):
        scale.run([job.format(new_job()), "1"])


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A job, by its id, that says this whatever it is asked."""
    job = new_job()
    door = scale_socket.door(job)
    door.setblocking(True)

    def serve() -> None:
        with door, door.accept()[0] as line:
            line.recv(99)
            line.send(answer)

    thread = Thread(target=serve)
    thread.start()
    yield job
    thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b"[]",
        b"[1]",
        b"7",
        b'"done"',
        b'{"done": 1, "words": "x"}',
        b'{"done": true, "words": []}',
        b'{"done": true}',
        b"\xff",
        b"[" * 4000,
    ],
)
def test_an_answer_that_cannot_be_understood_is_an_error(answer: bytes) -> None:
    with answering(answer) as job, pytest.raises(NodeError, match=f"job {job} does not answer"):
        scale.run([job, "1"])


def test_an_answer_is_printed_plainly(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    words = "a\x1b]0;t\x07b\x9bc"
    with answering(json.dumps({"done": True, "words": words}).encode()) as job:
        assert scale.run([job, "1"]) == 0
    shown = capfdbinary.readouterr().out
    assert shown == rb"dsrun-scale: a\x1b]0;t\x07b\x9bc" + b"\n"
