"""The socket of a job at which dsrun-scale asks: what it makes of a stranger at the other end."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.head.elastic import scale_socket

if TYPE_CHECKING:
    pass
from ...support.scaling import NOBODY, Asked, asked, needs_root

__all__ = ["asked"]


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
        asked.loop.add_reader(process.stdout.fileno(), asked.loop.stop)
        asked.loop.run()
        assert process.stdout.read() == b""
    assert (process.returncode, asked.sizes) == (0, [])
