"""How long nodes that could join wait for the present round."""

from __future__ import annotations

from dsrun.launcher.head.elastic.scale_up_delay import ScaleUpDelay

from ...support.clock import Clock


class Played:
    """A delay of a minute, and what comes of it."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.clock = Clock()
        self.over = 0
        self.said: list[str] = []
        self.delay = ScaleUpDelay(self.clock.timers, seconds, self.end, self.said.append)
        self.delay.begin()

    def end(self) -> None:
        self.over += 1


def test_it_is_over_in_time() -> None:
    played = Played()
    played.clock.go(10)
    assert (played.delay.left, played.delay.awaited) == (50.0, False)
    played.delay.wait(4)
    played.delay.wait(5)
    line = "a round of 4 nodes begins in 50 s, or when a worker prints something (--gain_delay)"
    assert (played.said, played.delay.awaited) == ([line], True)
    played.clock.go(49)
    assert not played.over
    played.clock.go(1)
    assert (played.over, played.delay.left, played.delay.awaited) == (1, 0.0, False)


def test_output_ends_it() -> None:
    played = Played()
    played.delay.wait(2)
    played.delay.end()
    played.clock.go(100)
    assert (played.over, played.delay.left) == (1, 0.0)


def test_output_that_nothing_waits_for_ends_it_for_those_to_come() -> None:
    played = Played()
    played.delay.end()
    assert (played.over, played.delay.left) == (0, 0.0)


def test_another_round_begins_it_anew() -> None:
    played = Played()
    played.delay.wait(2)
    played.clock.go(30)
    played.delay.begin()
    assert not played.delay.awaited
    played.clock.go(59)
    assert (played.over, round(played.delay.left)) == (0, 1)


def test_without_seconds_there_is_none() -> None:
    assert Played(0.0).delay.left == 0.0
