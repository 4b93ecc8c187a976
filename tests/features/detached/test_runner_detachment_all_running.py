"""When all workers of a run are running."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from dsrun.launcher.features.detached.runner_detachment import AllRunning
from dsrun.launcher.head.run.events import Exit, RanksStarted, Round, Started

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeRun:
    """A run of nodes that have begun, or not."""

    role = ""

    def __init__(self, *names: str, rendezvous: object = None) -> None:
        self.plan = SimpleNamespace(rendezvous=rendezvous)
        self.nodes = [SimpleNamespace(name=name, over=False) for name in names]
        self.begun: set[str] = set()
        self.workers = SimpleNamespace(began=lambda node: node.name in self.begun)
        self.told = 0
        AllRunning([self.role], self._tell).observe(cast("Any", self))

    def observe(self, observer: Callable[[object], None]) -> None:
        """Keep who observes it."""
        self.tell = observer

    def view(self) -> FakeRun:
        """Return the run."""
        return self

    def _tell(self) -> None:
        self.told += 1

    def tells(self, *events: object) -> int:
        for event in events:
            if type(event) is RanksStarted:
                self.begun.add(event.host)
            self.tell(event)
        return self.told


START = Started("j", 4, ("n0", "n1"), ("n0", 1))
FIRST, SECOND = RanksStarted("n0", (0, 1)), RanksStarted("n1", (2, 3))


def test_it_is_told_once_after_the_last_worker() -> None:
    run = FakeRun("n0", "n1")
    assert run.tells(START, FIRST) == 0
    assert run.tells(SECOND) == 1
    assert run.tells(FIRST, SECOND) == 1


def test_a_worker_that_has_ended_meanwhile_has_run() -> None:
    run = FakeRun("n0", "n1")
    assert run.tells(START, FIRST, Exit(0, "n0", 1, 0, False, ""), SECOND) == 1


@pytest.mark.parametrize("size", [2, 4])
def test_a_round_counts_its_own_workers(size: int) -> None:
    """Spares have none; a round that failed before all ran begins again."""
    run = FakeRun("n0", "n1", "spare")
    assert run.tells(START, Round(1, 0, size, ("n0", "n1"))) == 0
    if size == 4:
        assert run.tells(FIRST, Round(2, 1, size, ("n0", "n1")), SECOND) == 0
    assert run.tells(FIRST) == 1


def test_with_torchs_rendezvous_the_own_nodes_count() -> None:
    run = FakeRun("n0", rendezvous="c10d")
    assert run.tells(Started("j", 0, ("n0",), ("n0", 1)), Round(1, 0, 8, ("n0",))) == 0
    assert run.tells(FIRST) == 1


def test_of_roles_it_is_told_once_after_the_last_one() -> None:
    told: list[str] = []
    job = AllRunning(["server", "trainer"], lambda: told.append("all"))
    runs = {}
    for role in ("server", "trainer", "server"):  # the server starts again meanwhile
        runs[role] = FakeRun("n0", "n1")
        runs[role].role = role
        job.observe(cast("Any", runs[role]))
    runs["server"].tells(START, FIRST, SECOND)
    assert told == []
    runs["trainer"].tells(START, FIRST)
    assert told == []
    runs["trainer"].tells(SECOND)
    assert told == ["all"]
