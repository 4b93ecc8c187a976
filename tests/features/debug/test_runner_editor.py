"""The bytes between an editor and its program."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.poll import ready
from dsrun.launcher.control import frames
from dsrun.launcher.features.debug.runner_editor import BLOCK
from dsrun.launcher.head.fleet.commands import WINDOW

from ...support.limits import wait_for
from .loopback import on_the_way

if TYPE_CHECKING:
    from collections.abc import Callable

    from .desk import Desk

    DeskOf = Callable[..., Desk]


def inputs(desk: Desk) -> int:
    """How many bytes the program was sent since the last time."""
    desk.job.step()
    node = desk.job.node("n0")
    new = [
        frames.unpack_numbered(body) for kind, body in node.received if kind == frames.EXEC_INPUT
    ]
    node.received.clear()
    return sum(len(data) for _, data in new)


def test_bytes_go_both_ways(desk_of: DeskOf) -> None:
    desk = desk_of()
    line = desk.connect()
    desk.says(line, b"ask")
    assert inputs(desk) == 3
    desk.prints(1, b"answer")
    assert line.recv(10) == b"answer"


def test_what_the_program_has_printed_last_arrives_before_the_end(desk_of: DeskOf) -> None:
    desk = desk_of()
    line = desk.connect()
    desk.prints(1, b"last")
    desk.exits(1)
    assert (line.recv(10), line.recv(10)) == (b"last", b"")


def test_no_more_is_read_from_an_editor_than_the_program_takes(desk_of: DeskOf) -> None:
    desk = desk_of()
    line = desk.connect()
    line.setblocking(False)
    sent = first = 0

    def more_has_arrived() -> bool:
        nonlocal sent, first
        with suppress(BlockingIOError):
            sent += line.send(bytes(WINDOW + 2 * BLOCK - sent))
        first += inputs(desk)
        return first >= WINDOW and sent - on_the_way(line) > first

    wait_for(more_has_arrived, "more than the program takes")
    assert (inputs(desk), first < WINDOW + BLOCK) == (0, True)
    desk.job.node("n0").says(frames.pack_exec_count(frames.EXEC_TOOK, 1, first))
    desk.job.step()
    assert inputs(desk) > 0


def test_a_slow_editor_holds_the_program_back_and_gets_everything(desk_of: DeskOf) -> None:
    desk = desk_of()
    line = desk.connect()
    desk.sent()
    block, printed, granted = bytes(64 * 1024), 0, 0
    for _ in range(200):
        desk.prints(1, block)
        printed += len(block)
        grants = [body for kind, body in desk.job.node("n0").received if kind == frames.EXEC_CREDIT]
        granted = sum(frames.unpack_exec_count(body)[1] for body in grants)
        if printed - granted > WINDOW - len(block):
            break
    else:
        raise AssertionError("credit without end")
    got = 0

    def all_is_read() -> bool:
        nonlocal got
        desk.job.step()
        if ready([line.fileno()], 0.0):
            data = line.recv(1 << 20)
            assert data, "hung up"
            got += len(data)
        return got >= printed

    wait_for(all_is_read, "everything")
    assert desk.run.state.phase.name == "RUNNING"


@pytest.mark.parametrize("leaves", [False, True])
def test_a_program_that_fails_is_told_unless_its_editor_has_gone(
    desk_of: DeskOf, leaves: bool
) -> None:
    desk = desk_of()
    line = desk.connect()
    if leaves:
        desk.leaves(line)
    desk.prints(1, b"cannot answer", stream=2)
    desk.exits(1, 1)
    assert any("cannot answer" in said for said in desk.job.said()) is not leaves


def test_a_program_that_does_not_end_after_its_editor_is_stopped(desk_of: DeskOf) -> None:
    desk = desk_of()
    desk.leaves(desk.connect())
    desk.sent()
    desk.job.go(4.0)
    assert [kind for kind, _ in desk.sent()] == ["EXEC_STOP"]
    desk.exits(1, -15)
    desk.connect()
    assert [kind for kind, _ in desk.sent()] == ["EXEC"]
