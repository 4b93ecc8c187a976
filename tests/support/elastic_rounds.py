"""The rounds of a job without nodes: what they ask for is noted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.head.elastic.round_actions import (
    Change,
    Form,
    GiveUp,
    Notify,
    Release,
    Say,
    TooFew,
)
from dsrun.launcher.head.elastic.rounds import Rounds
from dsrun.launcher.specs.elastic_policy import ElasticPolicy

from .clock import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.head.elastic.round_actions import RoundAction


class Job:
    """Rounds, and what they have asked for.

    Attributes:
        formed: the members of every round.
        called: whom each change has called.
        noticed: whom each notice has told.
        released: who was let go.
        lost: who was given up.
        short: there were too few nodes for too long.
        sizes: how many nodes a round may have; any number if there are none.
        said: the lines for the user.
    """

    def __init__(
        self, nodes: int, least: int = 1, most: int = 99, restarts: int = 3, **more: Any
    ) -> None:
        self.clock = Clock()
        self.formed: list[list[int]] = []
        self.needed: list[int] = []
        self.called: list[list[int]] = []
        self.noticed: list[list[int]] = []
        self.released: list[int] = []
        self.lost: list[int] = []
        self.short = False
        self.sizes: set[int] = set()
        self.said: list[str] = []
        limits = ElasticPolicy(least, most, restarts, **more)
        self.rounds = Rounds(
            nodes, limits, self.clock.loop, self.act, self.fits, lambda node: f"n{node}"
        )

    def act(self, action: RoundAction) -> None:
        """Note what the rounds want done."""
        match action:
            case Form(members, restarts):
                self.form(list(members), restarts)
            case Change(nodes):
                self.called.append(list(nodes))
            case Notify(nodes):
                self.noticed.append(list(nodes))
            case Release(node):
                self.released.append(node)
            case GiveUp(node, reason):
                self.lose_one(node, reason)
            case TooFew():
                self.give_up()
            case Say(text):
                self.said.append(text)

    def fits(self, nodes: Sequence[int]) -> bool:
        return not self.sizes or len(nodes) in self.sizes

    def form(self, members: list[int], restarts: int) -> None:
        self.formed.append(members)
        self.needed.append(restarts)

    def lose_one(self, node: int, reason: str) -> None:
        assert reason
        self.lost.append(node)
        self.rounds.left(node)

    def give_up(self) -> None:
        self.short = True

    def join(self, *nodes: int) -> None:
        for node in nodes:
            self.rounds.joined(node, 1000 + node)

    def arrive(self, *nodes: int) -> None:
        """Nodes come, or come back, and are ready soon."""
        for node in nodes:
            assert self.rounds.came(node)
        self.join(*nodes)


def running(nodes: int, **limits: Any) -> Job:
    """A job whose first round has been formed."""
    job = Job(nodes, **limits)
    job.join(*range(nodes))
    return job
