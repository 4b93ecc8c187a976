"""The order in which events are handled, and what is left when one cannot be."""

from __future__ import annotations

import pytest

from dsrun.launcher.common.event_queue import EventQueue, Remaining

from ..support.cost import LINEAR, growth


def test_what_follows_of_an_event_comes_after_it_and_those_that_waited() -> None:
    queue, done = EventQueue(), list[str]()

    def handle(event: str) -> None:
        done.append(f"{event} begins")
        if event == "first":
            queue.put(handle, "second")
            queue.put(done.append, "third")
        done.append(f"{event} ends")

    queue.put(handle, "first")
    assert done == ["first begins", "first ends", "second begins", "second ends", "third"]


def test_the_events_behind_one_that_fails_wait_for_the_next() -> None:
    queue, done = EventQueue(), list[str]()

    def fail(event: str) -> None:
        queue.put(done.append, "behind")
        raise ValueError(event)

    with pytest.raises(ValueError, match="broken"):
        queue.put(fail, "broken")
    assert done == []
    queue.put(done.append, "next")
    assert done == ["behind", "next"]


def test_something_remains_until_all_is_done_and_again_if_that_is_undone() -> None:
    done = [False, False]
    remaining = Remaining(lambda: range(len(done)), lambda one: done[one])
    assert remaining
    done[1] = True
    assert remaining
    done[0] = True
    assert not remaining
    done[1] = False
    assert remaining
    done[1] = True
    assert not remaining
    done.append(False)
    assert remaining


@pytest.mark.parametrize("order", [1, -1])
def test_to_ask_after_each_of_many_costs_as_much_as_they_are(order: int) -> None:
    def work(size: int) -> None:
        done: set[int] = set()
        remaining = Remaining(lambda: range(size), lambda one: one in done)
        for one in range(size)[::order]:
            assert remaining
            done.add(one)
        assert not remaining

    assert growth(work, 50) < LINEAR
