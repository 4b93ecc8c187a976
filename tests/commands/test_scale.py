"""dsrun-scale: what it makes of a stranger at the other end."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.commands import scale
from dsrun.launcher.common.errors import NodeError, UsageError
from dsrun.launcher.head.elastic import scale_socket

if TYPE_CHECKING:
    from collections.abc import Iterator
from ..support.scaling import NOBODY, Asked, asked, needs_root, new_job

__all__ = ["asked"]


LISTEN = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("\\0" + sys.argv[1])
listener.listen()
print("here", flush=True)
sys.stdin.read()
"""


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
            stack.enter_context(scale_socket.listener(name))
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
        with pytest.raises(UsageError, match=f"no elastic job {job} on this machine"):
            scale.run([job, "2"])


@pytest.mark.parametrize("number", ["", "x", "-1", "1e9", "²", "1" * 5000, "2 "])
def test_what_is_no_number_of_nodes(number: str) -> None:
    with pytest.raises(UsageError, match="expected a number of nodes, not"):
        scale.run([new_job(), number])


@pytest.mark.parametrize("job", ["", "x", "x" * 5000, "\udcff", "\x1b[2J", "../x", "{}\n"])
def test_what_is_no_job(job: str) -> None:
    with pytest.raises(UsageError, match="no elastic job"):
        scale.run([job.format(new_job()), "1"])


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A job, by its id, that says this whatever it is asked."""
    job = new_job()
    listener = scale_socket.listener(job)
    listener.setblocking(True)

    def serve() -> None:
        with listener, listener.accept()[0] as line:
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
