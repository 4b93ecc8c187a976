"""Histories of a node whose agent is torch's: what it heeds, and when another takes its place."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.elastic.node_torch_agent import STUCK
from dsrun.launcher.node.machine import processes

from ...support.played_rounds import ROUND, TorchRounds, ends, finished, stops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...support.fake_agent import FakeAgents

pytestmark = pytest.mark.usefixtures("adopting")


@pytest.fixture
def played(agents: FakeAgents) -> Iterator[TorchRounds]:
    one = TorchRounds(agents)
    yield one
    one.rounds.close()
    while processes.children():
        os.waitpid(-1, 0)


# -- another round is wanted ----------------------------------------------------------------------


def test_the_agent_is_told_to_leave_its_round(played: TorchRounds) -> None:
    played.started()
    played.change()
    assert played.agent.told() == [{"change": True}]
    assert played.came(2 * STUCK) == []


def test_ends_are_kept_until_the_agent_has_asked_for_them(played: TorchRounds) -> None:
    """A worker may have ended because it was asked to, so that its work is not done."""
    played.started()
    played.change()
    played.rounds.exited(4, 0)
    assert played.codes() == [None, None]
    played.agent.shims[1].gets(signal.SIGTERM)
    assert played.came() == [stops()]
    assert played.codes() == [0, None]
    played.rounds.exited(5, 3)
    assert played.codes() == [0, 3]


def test_what_was_kept_is_forgotten_with_its_round(played: TorchRounds) -> None:
    played.started()
    played.change()
    played.change()
    played.rounds.exited(4, 3)
    played.joins()
    played.forms()
    played.requests()
    played.rounds.workers_gone()
    played.came()
    played.rounds.exited(5, 0)
    assert played.codes() == [None, 0]


def test_an_agent_whose_workers_have_all_ended_well_is_replaced(played: TorchRounds) -> None:
    """It waits for the other agents, and heeds nothing else."""
    played.started()
    former = played.pid
    played.rounds.exited(4, 0)
    played.rounds.exited(5, 0)
    played.change()
    played.next_agent()
    assert played.pid != former
    assert os.waitpid(former, 0)[1] == signal.SIGKILL
    played.change()  # for whom this is too early
    played.rounds.workers_gone()
    played.started(ROUND._replace(generation=2))


def test_one_of_whose_workers_one_has_failed_is_not(played: TorchRounds) -> None:
    played.started()
    played.rounds.exited(4, 0)
    played.rounds.exited(5, 1)
    played.change()
    assert played.agent.told() == [{"change": True}]


def test_an_agent_that_is_stuck_on_its_way_is_replaced(played: TorchRounds) -> None:
    """It waits for the ranks of nodes that are gone."""
    played.joins()
    played.forms()
    played.change()
    former = played.pid
    assert played.came(STUCK - 0.1) == []
    assert played.pid == former
    assert played.came(0.2) == []
    played.next_agent()
    assert played.pid != former
    played.started()


@pytest.mark.parametrize("how", ["joins", "requests", "joins and forms"])
def test_one_that_goes_on_in_time_is_not(played: TorchRounds, how: str) -> None:
    played.joins()
    played.forms()
    former = played.pid
    played.change()
    if how == "requests":
        played.requests()
    else:
        played.joins()
    if "forms" in how:
        played.forms(ROUND._replace(generation=2))
    played.came(2 * STUCK)
    assert played.pid == former


def test_an_agent_that_cannot_be_started_again_ends_the_rounds(played: TorchRounds) -> None:
    played.joins()
    played.forms()
    played.change()
    played.agents.python.unlink()
    ((name, left), end) = played.came(STUCK)
    assert (name, left["unusable"]) == ("AGENT_FAILED", False)
    assert left["reason"].startswith("torch's agent could not be started: ")
    assert end == ends(left["reason"])


def test_the_runner_hears_when_all_workers_have_ended_well_and_are_gone(
    played: TorchRounds,
) -> None:
    played.started()
    played.rounds.exited(4, 0)
    played.rounds.exited(5, 0)
    assert played.came() == []
    played.rounds.workers_gone()
    assert played.came() == [finished()]


@pytest.mark.parametrize("how", ["changed", "changed and stopped", "stopped"])
def test_workers_that_end_well_because_they_were_stopped_have_not_finished(
    played: TorchRounds, how: str
) -> None:
    played.started()
    if "changed" in how:
        played.change()
    if "stopped" in how:
        played.agent.shims[0].gets(signal.SIGTERM)
    played.came()
    played.rounds.exited(4, 0)
    played.rounds.exited(5, 0)
    played.rounds.workers_gone()
    assert played.came() == []


def test_a_round_that_has_finished_is_none_once_its_agent_is_replaced(played: TorchRounds) -> None:
    played.started()
    played.rounds.exited(4, 0)
    played.rounds.exited(5, 0)
    played.change()
    played.next_agent()
    played.rounds.workers_gone()
    assert played.came() == []


def test_an_agent_that_does_not_start_ends_the_rounds(played: TorchRounds) -> None:
    played.agents.python.unlink()
    again = type(played).__mro__[1](played.setup.task)
    ((name, failure), end) = again.came()
    assert (name, failure["unusable"]) == ("AGENT_FAILED", False)
    assert failure["reason"].startswith("torch's agent could not be started: ")
    assert end == ends(failure["reason"])
    assert list(again.rounds.agents) == []
    again.rounds.close()
