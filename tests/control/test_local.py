"""Sockets of local control, and streams that pass descriptors."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import system
from dsrun.launcher.control import frames, local
from dsrun.launcher.control.stream import StreamClosed

from ..support.leaks import open_files
from ..support.local_control import NOBODY, needs_root, new_name

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def lines() -> Iterator[tuple[local.LocalStream, local.LocalStream]]:
    one, other = socket.socketpair()
    with closing(local.LocalStream(one)) as near, closing(local.LocalStream(other)) as far:
        yield near, far


def reads(fd: int) -> bytes:
    try:
        return os.read(fd, 99)
    finally:
        os.close(fd)


def pipe_with(text: bytes) -> int:
    """Return the reading end of a pipe with this text."""
    read_fd, write_fd = os.pipe()
    os.write(write_fd, text)
    os.close(write_fd)
    return read_fd


@pytest.mark.parametrize("name", ["a", "20261122-010203-0a1b2c", "x.y_z-1", "9" * 63])
def test_a_name(name: str) -> None:
    assert local.is_name(name)
    assert len(local.address(local.HOLD, name)) <= 107


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a/b", "a\n", "é", "9" * 64, "\0", "a@b"])
def test_no_name(name: str) -> None:
    assert not local.is_name(name)


def test_a_name_is_taken_once_for_each_kind() -> None:
    name = new_name()
    with closing(local.listener(local.JOB, name)), closing(local.listener(local.HOLD, name)):
        with pytest.raises(OSError, match="Address already in use"):
            local.listener(local.JOB, name)
        assert local.is_name(name)
    local.listener(local.JOB, name).close()


def test_a_name_that_is_too_long_leaves_nothing_open() -> None:
    before = open_files()
    with pytest.raises(OSError, match="too long"):
        local.listener(local.JOB, "x" * 200)
    assert open_files() == before


def test_a_listener_takes_connections_and_does_not_block() -> None:
    name = new_name()
    with closing(local.listener(local.JOB, name)) as made, socket.socket(socket.AF_UNIX) as line:
        with pytest.raises(BlockingIOError):
            made._accept()  # type: ignore[attr-defined]
        line.connect(f"\0{local.address(local.JOB, name)}")
        os.close(made._accept()[0])  # type: ignore[attr-defined]


def test_this_user_is_trusted() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert local.trusted(one)


@needs_root
@pytest.mark.parametrize(("uid", "gid", "trusted"), [(0, NOBODY, True), (NOBODY, 0, False)])
def test_the_user_counts_and_not_the_group(uid: int, gid: int, trusted: bool) -> None:
    os.setegid(gid)
    os.seteuid(uid)
    try:
        one, other = socket.socketpair()
    finally:
        os.seteuid(0)
        os.setegid(0)
    with one, other:
        assert local.trusted(one) is trusted


@needs_root
def test_root_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "getuid", lambda: NOBODY)
    one, other = socket.socketpair()
    with one, other:
        assert local.trusted(one)


def test_a_stream_does_not_wait_whatever_its_socket_did() -> None:
    one, other = socket.socketpair()
    one.settimeout(None)
    with other, closing(local.LocalStream(one)) as near:
        assert not os.get_blocking(near.read_fd)
        assert near.receive() == []


def test_frames_and_descriptors_arrive_together(
    lines: tuple[local.LocalStream, local.LocalStream],
) -> None:
    near, far = lines
    near.send(frames.pack(1, b"before"))
    first, second = pipe_with(b"first"), pipe_with(b"second")
    near.send_with(frames.pack(2, b"with"), [first, second])
    near.send(frames.pack(3, b"after"))
    os.close(first)
    os.close(second)
    arrived = [frame for _ in range(3) for frame in far.receive()]
    assert arrived == [(1, b"before"), (2, b"with"), (3, b"after")]
    assert [reads(fd) for fd in far.take(2)] == [b"first", b"second"]
    with pytest.raises(frames.BadFrame, match="1 descriptors announced, 0 sent"):
        far.take(1)


def test_descriptors_go_with_a_frame_that_does_not_fit_at_once(
    lines: tuple[local.LocalStream, local.LocalStream],
) -> None:
    near, far = lines
    fd = pipe_with(b"text")
    near.send_with(frames.pack(1, b"x" * (3 << 20)), [fd])
    os.close(fd)
    arrived: list[tuple[int, bytes]] = []
    while not arrived:
        arrived = far.receive()
        near.flush()
    assert len(arrived[0][1]) == 3 << 20
    assert reads(*far.take(1)) == b"text"
    with pytest.raises(frames.BadFrame):
        far.take(1)


def test_descriptors_are_not_inherited(lines: tuple[local.LocalStream, local.LocalStream]) -> None:
    near, far = lines
    near.send_with(frames.pack(1), [0])
    far.receive()
    (fd,) = far.take(1)
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_descriptors_that_nobody_takes_are_closed() -> None:
    before = open_files()
    one, other = socket.socketpair()
    with closing(local.LocalStream(one)) as near, closing(local.LocalStream(other)) as far:
        near.send_with(frames.pack(1), [0, 1])
        far.receive()
        far.close()
    assert open_files() == before


@pytest.mark.parametrize("each", [local.MOST_FDS + 1, local.MOST_FDS // 2 + 1, 100])
def test_too_many_descriptors_end_the_stream(each: int) -> None:
    before = open_files()
    one, other = socket.socketpair()
    with ExitStack() as stack:
        stack.enter_context(one)
        far = stack.enter_context(closing(local.LocalStream(other)))
        for _ in range(2):
            socket.send_fds(one, [frames.pack(1)], [0] * each)
        if each < local.MOST_FDS:
            far.receive()
        with pytest.raises(StreamClosed, match="more than 16 descriptors"):
            far.receive()
    assert open_files() == before


def test_a_stream_that_is_closed(lines: tuple[local.LocalStream, local.LocalStream]) -> None:
    near, far = lines
    near.close()
    near.close()
    with pytest.raises(StreamClosed):
        near.send(frames.pack(1))
    with pytest.raises(StreamClosed, match="closed by the other end"):
        far.receive()
    assert near.read_fd == -1
