"""The program that connects an editor with a worker."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from dsrun.launcher.control import local
from dsrun.launcher.features.debug import node_program as program

from ...support.local_control import NOBODY, needs_root, new_name


def listener(name: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(f"\0{local.address('debug', name)}")
    made.listen()
    return made


def test_a_worker_that_is_gone_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([new_name()]) == 1
    assert "refused" in capsys.readouterr().err


@pytest.mark.parametrize(
    "greeting",
    [
        *(b"", b"no json\n", b"x" * (program.LONGEST + 2), b"[" * 9_000 + b"\n", b"NaN\n"),
        *(b"7\n", b'["python"]\n', b'["python", 7]\n', b"null\n"),
    ],
)
def test_a_worker_that_says_something_else_is_an_error(
    greeting: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    name = new_name()
    with listener(name) as made:

        def answer() -> None:
            line, _ = made.accept()
            with line:
                line.sendall(greeting)

        thread = threading.Thread(target=answer)
        thread.start()
        assert program.main([name]) == 1
        thread.join()
    assert capsys.readouterr().err


@needs_root
def test_another_user_s_socket_is_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    name = new_name()
    os.seteuid(NOBODY)
    try:
        made = listener(name)
    finally:
        os.seteuid(0)
    with made:
        assert program.main([name]) == 1
    assert capsys.readouterr().err == "its socket belongs to another user\n"
