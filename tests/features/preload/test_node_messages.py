"""Messages of any length, with descriptors."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.preload import node_messages as messages

from ...support.leaks import open_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    Line = tuple[socket.socket, socket.socket]


@pytest.fixture
def line() -> Iterator[Line]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("value", [{}, {"a": "caf\udce9"}, {"long": "x" * 3_000_000}])
def test_a_message_arrives_whole_though_nobody_reads_yet(line: Line, value: dict[str, str]) -> None:
    before = open_files()
    messages.send(line[0], value)
    messages.send(line[0], {"next": 1})
    assert open_files() == before
    assert messages.receive(line[1]) == (value, [])
    assert messages.receive(line[1]) == ({"next": 1}, [])
    assert open_files() == before


def test_descriptors_arrive_as_copies_that_no_program_inherits(line: Line) -> None:
    reading, writing = os.pipe()
    messages.send(line[0], {}, [writing])
    os.close(writing)
    message = messages.receive(line[1])
    assert message is not None
    (copy,) = message[1]
    assert not os.get_inheritable(copy)
    os.write(copy, b"x")
    os.close(copy)
    assert os.read(reading, 9) == b"x"
    os.close(reading)


def test_a_line_that_has_ended_has_no_message(line: Line) -> None:
    line[0].close()
    assert messages.receive(line[1]) is None


def test_nor_has_one_that_was_closed_with_an_unread_message(line: Line) -> None:
    messages.send(line[1], {"unread": True})
    line[0].close()
    assert messages.receive(line[1]) is None


def test_a_line_that_does_not_block_says_that_there_is_none_yet(line: Line) -> None:
    line[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        messages.receive(line[1])


def test_a_message_that_cannot_be_sent_leaves_no_descriptor(line: Line) -> None:
    line[1].close()
    before = open_files()
    with pytest.raises(OSError, match="pipe"):
        messages.send(line[0], {})
    assert open_files() == before


NONSENSE = {
    "no object": (b"[1]", b"3"),
    "no JSON": (b"{", b"1"),
    "nested too deeply": (b"[" * 100_000, b"100000"),
    "a negative length": (b"{}", b"-1"),
    "not UTF-8": (b'{"a": "\xff"}', b"11"),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_a_program_that_writes_something_else_there_is_told_by_one_error(
    line: Line, case: str
) -> None:
    ours, theirs = line
    text, length = NONSENSE[case]
    before = open_files()
    memory = os.memfd_create("nonsense")
    os.write(memory, text)
    socket.send_fds(theirs, [length], [memory, memory])
    os.close(memory)
    with pytest.raises(ValueError, match=r"^no message: "):
        messages.receive(ours)
    assert open_files() == before
