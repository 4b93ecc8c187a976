"""The editors of one rank, one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.specs.environment import to_wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from .desk import Desk

    DeskOf = Callable[..., Desk]


def test_an_editor_gets_a_program_that_knows_the_worker_s_socket(desk_of: DeskOf) -> None:
    desk = desk_of()
    desk.connect()
    ((kind, command),) = desk.sent()
    task, other = [node.task for node in desk.run.state.nodes]
    assert task is not None
    assert other is not None
    assert kind == "EXEC"
    assert (command["program"], command["argv"]) == ("debug", [to_wire(f"{task.debug_secret}-1")])
    assert (len(task.debug_secret), other.debug_secret) == (32, ""), (
        "only where there is such a rank"
    )


def test_the_next_one_waits_until_the_one_before_has_left(desk_of: DeskOf) -> None:
    desk = desk_of()
    desk.connect()
    desk.sent()
    second = desk.connect()
    desk.says(second, b"second")
    assert desk.sent() == []
    desk.leaves(desk.editors[0])
    assert [kind for kind, _ in desk.sent()] == ["EXEC_INPUT"], "the end of the first one's"
    desk.exits(1)
    desk.job.step()
    kinds = [kind for kind, _ in desk.sent()]
    assert kinds == ["EXEC", "EXEC_INPUT"]


def test_a_rank_is_awaited_until_an_editor_lets_it_begin(desk_of: DeskOf) -> None:
    desk = desk_of()
    line = desk.connect()
    desk.says(line, b'{"command":"initialize"}')
    desk.leaves(line)
    desk.exits(1)
    assert desk.run.debugging == {1}
    line = desk.connect()
    desk.says(line, b'{"command": "configurationDone"}')
    desk.leaves(line)
    desk.exits(2)
    assert desk.run.debugging == set()


def test_a_program_that_fails_is_a_warning_with_its_reason(desk_of: DeskOf) -> None:
    desk = desk_of()
    line = desk.connect()
    desk.prints(1, b"no\x1bsuch thing\n", 2)
    desk.exits(1, 1)
    assert desk.job.said("warning") == ["rank 1 cannot be debugged: no\\x1bsuch thing"]
    assert line.recv(1) == b""
    desk.connect()
    assert [kind for kind, _ in desk.sent()][-1] == "EXEC"


def test_the_end_of_the_rank_gives_its_editor_a_moment(desk_of: DeskOf) -> None:
    desk = desk_of()
    desk.connect()
    desk.job.node("n0").exits(1, 0)
    desk.job.step()
    desk.sent()
    desk.job.go(4.0)
    assert [kind for kind, _ in desk.sent()] == ["EXEC_STOP"]


def test_in_the_next_round_it_has_the_same_port(desk_of: DeskOf) -> None:
    desk = desk_of()
    desk.job.node("n0").exits(1, 0)
    desk.job.step()
    desk.job.up("n0", 1)
    again = desk.job.said()
    assert again == desk.lines[:1]
    assert desk.run.debugging == {1}
    desk.connect()
    assert [kind for kind, _ in desk.sent()] == ["EXEC"]
