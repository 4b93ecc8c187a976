"""Pipes on a loop: reading that can pause, writing that never waits."""

from __future__ import annotations

import os

from dsrun.launcher.features.exec.runner_pipes import InPipe, OutPipe

from ...support.clock import Clock
from ...support.leaks import open_files


def test_reading_pauses_and_goes_on() -> None:
    clock, got, ends = Clock(), list[bytes](), list[str]()
    read, write = os.pipe()
    pipe = InPipe(clock.loop, read, got.append, lambda: ends.append("end"))
    os.write(write, b"one")
    clock.settle()
    pipe.pause(True)
    os.write(write, b"two")
    clock.settle()
    assert got == [b"one"]
    pipe.pause(False)
    clock.settle()
    assert got == [b"one", b"two"]
    os.close(write)
    clock.settle()
    assert ends == ["end"]
    assert not pipe.open
    pipe.pause(False)
    pipe.close()


def test_the_rest_is_read_though_somebody_keeps_the_other_end() -> None:
    clock, got = Clock(), list[bytes]()
    read, write = os.pipe()
    pipe = InPipe(clock.loop, read, got.append, lambda: None)
    os.write(write, b"x" * 60_000)
    pipe.drain()
    assert b"".join(got) == b"x" * 60_000
    assert not pipe.open
    os.close(write)


def test_writing_keeps_the_order_and_tells_when_there_is_room() -> None:
    before = open_files()
    clock, room = Clock(), list[int]()
    read, write = os.pipe()
    pipe = OutPipe(clock.loop, write, lambda: room.append(pipe.backlog))
    pipe.send(b"a" * 100_000)
    pipe.send(b"b" * 100_000)
    assert 100_000 < pipe.backlog < 200_000
    assert room == []
    got = b""
    while len(got) < 200_000:
        got += os.read(read, 65536)
        clock.settle()
    assert got == b"a" * 100_000 + b"b" * 100_000
    assert pipe.backlog == 0
    assert room[-1] == 0
    pipe.close()
    os.close(read)
    clock.loop._epoll.close()
    assert open_files() <= before


def test_what_nobody_reads_is_dropped() -> None:
    clock, room = Clock(), list[int]()
    read, write = os.pipe()
    pipe = OutPipe(clock.loop, write, lambda: room.append(pipe.backlog))
    pipe.send(b"a" * 100_000)
    os.close(read)
    clock.settle()
    assert room == [0]
    pipe.send(b"more")
    assert pipe.backlog == 0
