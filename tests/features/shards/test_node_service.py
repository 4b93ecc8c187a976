"""The lines of workers to the shard queues: opened, used for requests, answered and closed."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames
from dsrun.launcher.features.shards import node_service as shards
from dsrun.launcher.node.workers.spawn import Process

from ...support.limits import HANG
from ...support.services import START, service_context
from ...support.specs import python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Node:
    """The lines of two workers, ranks 4 and 5 of round 3, played by this process.

    Attributes:
        asked: (rank, generation, number of the line, question) of all that was sent on.
        noted: lines for the user.
    """

    def __init__(self) -> None:
        self.loop = Loop()
        self.asked: list[tuple[int, int, int, bytes]] = []
        self.noted: list[str] = []
        self.lines = shards.QueueLines(service_context(self.loop, self._sent, self.noted.append))
        self._workers: dict[int, socket.socket] = {}
        self._ours: list[socket.socket] = []
        with self.lines.outfit(
            [python("", 4), python("", 5)], START._replace(generation=3)
        ) as specs:
            for spec in specs:
                (fd,) = spec.fds
                number, _, inode = spec.env[shards.VARIABLE].decode().partition(":")
                assert (int(number), int(inode)) == (fd, os.fstat(fd).st_ino)
                assert spec.env[b"A"]
                self._workers[spec.rank] = socket.socket(fileno=os.dup(fd))

    def _sent(self, frame: bytes) -> None:
        ((kind, body),) = frames.Decoder().feed(frame)
        assert kind == frames.SHARD_REQUEST
        self.asked.append(frames.unpack_shard_request(body))

    def answer(self, number: int, text: bytes) -> None:
        """Answer on a line."""
        self.lines.receive(frames.pack_shard_answer(number, text)[5:])

    def hand_in(self, rank: int) -> socket.socket:
        """Open a line for a worker; return the worker's end of it."""
        mine, theirs = socket.socketpair()
        mine.settimeout(HANG)
        self._ours.append(mine)
        with theirs:
            socket.send_fds(self._workers[rank], [b"x"], [theirs.fileno()])
        return mine

    def hand_in_file(self, rank: int) -> None:
        """Pass a descriptor that is not a socket."""
        with Path(os.devnull).open("rb") as file:
            socket.send_fds(self._workers[rank], [b"x"], [file.fileno()])

    def run(self, holds: Callable[[], bool]) -> None:
        """Run until a condition holds."""
        late: list[bool] = []

        def look() -> None:
            if holds() or late:
                self.loop.stop()
            else:
                self.loop.call_later(0.001, look)

        timer = self.loop.call_later(HANG, lambda: late.append(True))
        look_at = self.loop.call_later(0.0, look)
        self.loop.run()
        timer.cancel()
        look_at.cancel()
        assert not late

    def settle(self) -> None:
        """Run until everything so far has been handled."""
        turns = iter(range(5))
        self.run(lambda: next(turns, None) is None)

    def ask(self, line: socket.socket, said: bytes) -> int:
        """Send a request on a line; return the line's number, once the request was passed on."""
        before = len(self.asked)
        line.send(said + b"\n")
        self.run(lambda: len(self.asked) > before)
        assert self.asked[-1][3] == said
        return self.asked[-1][2]

    def is_closed(self, line: socket.socket) -> bool:
        """Return whether a line is closed."""
        line.setblocking(False)
        try:
            return line.recv(1) == b""
        except BlockingIOError:
            return False
        finally:
            line.settimeout(HANG)

    def close(self) -> None:
        """Close all that is open."""
        self.lines.close()
        for one in (*self._workers.values(), *self._ours):
            one.close()


@pytest.fixture
def node() -> Iterator[Node]:
    one = Node()
    yield one
    one.close()


def test_a_question_goes_on_and_its_answer_comes_back(node: Node) -> None:
    first, second = node.hand_in(4), node.hand_in(5)
    number, other = node.ask(first, b'{"a":1}'), node.ask(second, b"{}")
    assert node.asked == [(4, 3, number, b'{"a":1}'), (5, 3, other, b"{}")]
    assert number != other
    node.answer(number, b"yes")
    assert first.recv(99) == b"yes\n"
    assert node.ask(first, b"more") == number
    node.answer(number, b"and more")
    assert first.recv(99) == b"and more\n"
    assert not node.is_closed(second)


def test_a_question_may_come_in_pieces(node: Node) -> None:
    line = node.hand_in(4)
    line.send(b"on")
    node.settle()
    line.send(b"e")
    node.settle()
    assert node.asked == []
    line.send(b"!\n")
    node.run(lambda: bool(node.asked))
    assert node.asked[0][3] == b"one!"


def test_a_long_answer_is_written_as_it_is_read(node: Node) -> None:
    line = node.hand_in(4)
    number = node.ask(line, b"all")
    node.answer(number, b"y" * (3 << 20))
    got = bytearray()

    def read() -> bool:
        line.setblocking(False)
        with suppress(BlockingIOError):
            got.extend(line.recv(1 << 20))
        return len(got) == (3 << 20) + 1

    node.run(read)
    assert got.endswith(b"yy\n")
    line.settimeout(HANG)
    assert node.ask(line, b"next") == number


def test_the_end_of_a_line_is_told(node: Node) -> None:
    line = node.hand_in(4)
    number = node.ask(line, b"one")
    line.close()
    node.run(lambda: len(node.asked) == 2)
    assert node.asked[1] == (4, 3, number, b"")
    node.answer(number, b"nobody waits for this")
    assert node.noted == []


def test_an_empty_answer_ends_all_lines_of_the_worker_alone(node: Node) -> None:
    lines = [node.hand_in(4), node.hand_in(4), node.hand_in(5)]
    numbers = [node.ask(line, b"x") for line in lines]
    assert len(set(numbers)) == 3
    node.answer(numbers[0], b"")
    assert [node.is_closed(line) for line in lines] == [True, True, False]
    assert {one[:3] for one in node.asked if not one[3]} == {(4, 3, n) for n in numbers[:2]}
    assert node.noted == []


def test_a_worker_that_has_ended_takes_nothing_more(node: Node) -> None:
    mine, other = node.hand_in(4), node.hand_in(5)
    node.ask(mine, b"x")
    node.ask(other, b"x")
    for _ in range(2):
        node.lines.exited(Process(python("", 4), 0, -1, -1, -1))
    assert node.is_closed(mine)
    assert not node.is_closed(other)
    with pytest.raises(BrokenPipeError):
        node.hand_in(4)
    node.lines.close()
    assert node.is_closed(other)
    assert node.noted == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"one\ntwo", "more than one request at a time"),
        (b"\n", "an empty request"),
        (b"x" * (shards.LIMIT + 1), f"a request of more than {shards.LIMIT} bytes"),
    ],
)
def test_who_says_what_no_queue_asks_loses_its_lines(node: Node, said: bytes, why: str) -> None:
    line, other = node.hand_in(4), node.hand_in(5)
    rest = memoryview(said)
    line.setblocking(False)

    def send() -> bool:
        nonlocal rest
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            rest = rest[line.send(rest) :] if rest else rest
        return bool(node.noted)

    node.run(send)
    assert node.noted == [f"rank 4: {why}; its connections to the shard queues are closed"]
    assert all(not said for *_, said in node.asked)
    assert node.ask(other, b"still") == node.asked[-1][2]


def test_the_longest_question_is_asked(node: Node) -> None:
    line = node.hand_in(4)
    line.setblocking(False)
    rest = memoryview(b"x" * (shards.LIMIT - 1) + b"\n")

    def send() -> bool:
        nonlocal rest
        with suppress(BlockingIOError):
            rest = rest[line.send(rest) :] if rest else rest
        return bool(node.asked or node.noted)

    node.run(send)
    assert [len(one[3]) for one in node.asked] == [shards.LIMIT - 1]


def test_a_second_question_before_the_answer_ends_the_lines(node: Node) -> None:
    line = node.hand_in(4)
    node.ask(line, b"one")
    line.send(b"two\n")
    node.run(lambda: bool(node.noted))
    assert node.noted == [
        "rank 4: more than one request at a time; its connections to the shard queues are closed"
    ]
    assert node.is_closed(line)


def test_a_worker_has_so_many_lines_and_no_more(node: Node) -> None:
    lines = [node.hand_in(4) for _ in range(shards.MOST_LINES)]
    node.ask(lines[-1], b"last")
    assert node.noted == []
    one_more = node.hand_in(4)
    node.run(lambda: bool(node.noted))
    assert node.noted == [
        f"rank 4: more than {shards.MOST_LINES} connections;"
        " its connections to the shard queues are closed"
    ]
    assert all(map(node.is_closed, [*lines, one_more]))


def test_what_is_no_socket_is_the_end_of_handing_in(node: Node) -> None:
    line = node.hand_in(4)
    number = node.ask(line, b"x")
    node.hand_in_file(4)
    node.settle()
    with pytest.raises(BrokenPipeError):
        node.hand_in(4)
    node.answer(number, b"y")
    assert line.recv(9) == b"y\n"
    assert node.noted == []


def test_a_line_that_takes_no_answer_ends_nothing_else(node: Node, tmp_path: Path) -> None:
    """It is the bound end of datagrams, from which nothing can be sent."""
    bound, sender = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    with bound, sender:
        bound.bind(f"{tmp_path}/line")
        socket.send_fds(node._workers[4], [b"x"], [bound.fileno()])
        sender.connect(f"{tmp_path}/line")
        number = node.ask(sender, b"one")
        node.answer(number, b"two")
    other = node.hand_in(5)
    node.answer(node.ask(other, b"three"), b"four")
    assert other.recv(99) == b"four\n"
