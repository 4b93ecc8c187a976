"""The order in which events are handled, and what is left when one cannot be."""

from __future__ import annotations

import pytest

from dsrun.launcher.common.event_queue import EventQueue


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
