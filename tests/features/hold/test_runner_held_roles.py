"""A job of several roles for a client of a hold: its signals, and its end."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import local

from ...support.local_control import new_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...support.fake_hold import FakeHold

    HoldOf = Callable[..., FakeHold]


class HeldRoles:
    """A job whose one role has two workers on n0, which run."""

    def __init__(self, fake: FakeHold) -> None:
        self.fake, self.client, self.name = fake, fake.client(), new_name()
        self.client.run(self.name, {"n0": [0, 1]}, role="server")
        fake.job.ready()
        fake.job.node("n0").beats()
        fake.job.step()
        fake.job.up("n0", 0, 1)
        fake.job.news("n0")

    def gets(self, number: int) -> list[Any]:
        """Have the client get a signal; return what the node is sent."""
        self.client.ask("signal", number=number)
        return self.fake.job.news("n0")

    def ends(self) -> dict[str, Any]:
        """Have the workers end by a signal, as they were told; return the answer."""
        for rank in (0, 1):
            self.fake.job.node("n0").exits(rank, -signal.SIGTERM, told=True)
        self.fake.job.node("n0").done()
        self.fake.job.step()
        return self.client.wait(1)


@pytest.fixture
def held(hold_of: HoldOf) -> Iterator[HeldRoles]:
    """A job that is ended after the test."""
    made = HeldRoles(hold_of("n0").ready())
    yield made
    if made.name in made.fake.hold.runs:
        made.gets(signal.SIGTERM)
        made.ends()


def test_a_signal_reaches_the_ranks_of_all_roles(held: HeldRoles) -> None:
    assert [kind for kind, _ in held.gets(signal.SIGUSR1)] == ["SIGNAL"]


def test_ctrl_backslash_shows_the_ranks_and_ends_none(held: HeldRoles) -> None:
    """As in a terminal: the ranks would dump core."""
    assert "SIGNAL" not in [kind for kind, _ in held.gets(signal.SIGQUIT)]
    held.fake.wait_for(lambda: "4000" in held.client.printed())


def test_the_release_of_a_hold_is_the_reason(held: HeldRoles) -> None:
    held.fake.hold.stop(0)
    held.fake.job.step()
    answer = held.ends()
    assert answer["code"] == 128 + signal.SIGTERM
    assert "dsrun-hold --release: stopping all roles" in held.client.printed()
    assert "stopped by dsrun-hold --release after" in answer["text"]


def test_nobody_can_ask_it_any_more_once_its_nodes_are_given_back(held: HeldRoles) -> None:
    held.gets(signal.SIGTERM)
    assert held.ends()["code"] == 128 + signal.SIGTERM
    local.listener(local.JOB, held.name).close()  # the name is free
