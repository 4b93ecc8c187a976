"""Actions one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.head.elastic.round_actions import ActionQueue, Form, Log, StopRound

if TYPE_CHECKING:
    from dsrun.launcher.head.elastic.round_actions import RoundAction


def test_what_follows_from_an_action_is_carried_out_after_it() -> None:
    done: list[str] = []

    def act(action: RoundAction) -> None:
        done.append(f"begin {type(action).__name__}")
        if isinstance(action, Form):
            queue.add([StopRound((0,)), Log("a line broke")])
            queue.run()
        done.append(f"end {type(action).__name__}")

    queue = ActionQueue(act)
    queue.add([Form((0, 1), "a", 0)])
    assert not done
    queue.run()
    names = ("Form", "StopRound", "Log")
    assert done == [f"{part} {name}" for name in names for part in ("begin", "end")]


def test_an_action_that_fails_leaves_the_queue_usable() -> None:
    done: list[RoundAction] = []

    def act(action: RoundAction) -> None:
        if isinstance(action, Log):
            raise ValueError("no")
        done.append(action)

    queue = ActionQueue(act)
    queue.add([Log("x"), StopRound((1,))])
    with pytest.raises(ValueError, match="no"):
        queue.run()
    queue.run()
    assert done == [StopRound((1,))]
