"""Input that is sent no faster than it is taken."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dsrun.launcher.features.exec.runner_input_broadcast import WINDOW, from_blocks, from_descriptor

from ...support.clock import Clock
from ...support.fake_hosts import FakeHosts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_blocks_are_made_as_there_is_room() -> None:
    made = list[int]()

    def blocks() -> Iterator[bytes]:
        for number in range(3):
            made.append(number)
            yield b"%d" % number

    hosts = FakeHosts("n1")
    broadcast = from_blocks(Clock().loop, hosts, blocks())
    hosts.waiting = WINDOW
    broadcast.pump()
    assert made == []
    hosts.waiting = WINDOW - 1
    broadcast.pump()
    assert hosts.sent == [b"0", b"1", b"2", b""]
    broadcast.pump()
    assert len(hosts.sent) == 4, "the end is sent once"


def test_an_empty_block_is_not_the_end() -> None:
    hosts = FakeHosts("n1")
    from_blocks(Clock().loop, hosts, iter([b"", b"one", b"", b"two", b""])).pump()
    assert hosts.sent == [b"one", b"two", b""]


def test_a_pipe_is_read_only_while_there_is_room() -> None:
    clock, hosts = Clock(), FakeHosts("n1")
    read, write = os.pipe()
    broadcast = from_descriptor(clock.loop, hosts, read)
    hosts.waiting = WINDOW
    os.write(write, b"one")
    broadcast.pump()
    clock.settle()
    assert hosts.sent == []
    hosts.waiting = 0
    broadcast.pump()
    clock.settle()
    assert hosts.sent == [b"one"]
    os.close(write)
    clock.settle()
    assert hosts.sent == [b"one", b""]
    os.close(read)


def test_a_closed_broadcast_sends_no_more() -> None:
    clock, hosts = Clock(), FakeHosts("n1")
    read, write = os.pipe()
    broadcast = from_descriptor(clock.loop, hosts, read)
    broadcast.pump()
    broadcast.close()
    os.write(write, b"late")
    broadcast.pump()
    clock.settle()
    assert hosts.sent == []
    os.close(read)
    os.close(write)


def test_a_file_is_sent_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"x" * 700_000)
    hosts = FakeHosts("n1")
    fd = os.open(path, os.O_RDONLY)
    from_descriptor(Clock().loop, hosts, fd).pump()
    os.close(fd)
    assert b"".join(hosts.sent) == b"x" * 700_000
    assert hosts.sent[-1] == b""
