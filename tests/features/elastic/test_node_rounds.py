"""Histories of a node's rounds: frames, the agent's messages, exits in; events and frames out.

The process of torch's agent is real, and what it says is said by the test. What follows without
torch's agent is in `test_dsrun_agent.py`.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import round_messages
from dsrun.launcher.features.elastic.node_torch_agent import STUCK
from dsrun.launcher.node.machine import processes
from dsrun.launcher.specs.rendezvous import Rendezvous

from ...support.played_rounds import ROUND, START, TorchRounds, ends, found, starts, stops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ...support.fake_agent import FakeAgents

pytestmark = pytest.mark.usefixtures("adopting")


@pytest.fixture
def played(agents: FakeAgents) -> Iterator[TorchRounds]:
    one = TorchRounds(agents)
    yield one
    one.rounds.close()
    while processes.children():
        os.waitpid(-1, 0)


# -- the runner's rounds --------------------------------------------------------------------------


def test_a_round_from_the_join_to_its_workers(played: TorchRounds) -> None:
    assert played.agent.settings["workers"] == 2
    played.joins()
    played.forms()
    assert played.came() == []
    place = {"rank": 2, "nodes": 3, "host": "h0", "port": 77}
    assert played.agent.told() == [{"round": place}]
    played.requests()
    assert played.came() == [starts(found(ROUND))]


def test_the_agent_hears_how_workers_end(played: TorchRounds) -> None:
    played.started()
    played.rounds.exited(5, 7)
    assert played.codes() == [None, 7]
    played.rounds.exited(4, -9)
    assert played.codes() == [-9, 7]
    assert played.came() == []


def test_the_agent_stops_the_workers(played: TorchRounds) -> None:
    played.started()
    played.agent.shims[0].gets(signal.SIGTERM)
    assert played.came() == [stops()]
    played.agent.shims[1].dies()
    assert played.came() == [stops(signal.SIGKILL, 0.0)]
    played.rounds.workers_gone()
    played.agent.shims[0].gets(signal.SIGTERM)
    assert played.came() == []


def test_workers_may_have_been_stopped_before_they_were_started(played: TorchRounds) -> None:
    played.started()
    played.agent.shims[0].gets(signal.SIGTERM)
    assert played.came() == [stops()]
    played.rounds.not_started(signal.SIGTERM)
    assert played.codes() == [-15, -15]


def test_a_round_waits_for_the_workers_of_the_one_before(played: TorchRounds) -> None:
    played.started()
    played.joins()
    second = ROUND._replace(generation=2, first_rank=0)
    played.forms(second)
    played.rounds.exited(5, 7)  # of the first round, and nobody's in the second
    played.requests()
    assert played.came() == []
    played.rounds.exited(1, 7)
    assert played.codes() == [None, None]
    played.rounds.workers_gone()
    assert played.came() == [starts(found(second))]
    played.rounds.exited(1, 7)
    assert played.codes() == [None, 7]


def test_an_end_while_the_agent_joins_is_nobodys(played: TorchRounds) -> None:
    played.started()
    played.joins()
    played.rounds.exited(4, 0)
    assert played.codes() == [None, None]


def test_an_agent_that_leaves_before_its_workers_started_gets_them_ended(
    played: TorchRounds,
) -> None:
    """It would wait for their end for as long as torch does."""
    played.started()
    played.joins()
    played.forms(ROUND._replace(generation=2))
    played.requests()
    assert played.came() == []
    played.change()
    played.agent.shims[-2].gets(signal.SIGTERM)
    assert played.came() == [stops()]
    assert played.codes() == [-signal.SIGTERM] * 2
    played.rounds.workers_gone()
    assert played.came() == []
    third = ROUND._replace(generation=3)
    played.started(third)


def test_a_request_without_a_round_is_no_request(played: TorchRounds) -> None:
    played.requests()
    assert played.came() == []
    played.joins()
    played.requests()
    assert played.came() == []


# -- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "out"),
    [
        ({}, [ends("")]),
        ({"reason": ""}, [("AGENT_FAILED", {"reason": "", "unusable": False}), ends("")]),
        (
            {"reason": "x", "unusable": True},
            [("AGENT_FAILED", {"reason": "x", "unusable": True}), ends("x")],
        ),
    ],
)
def test_the_agents_end_is_the_end_of_the_rounds(
    played: TorchRounds, left: dict[str, Any], out: list[Any]
) -> None:
    played.started()
    played.agent.leaves(**left)
    assert played.came() == out


def stop(played: TorchRounds) -> None:
    played.rounds.stop()


def leave(played: TorchRounds) -> None:
    played.agent.leaves()
    played.came()


@pytest.mark.parametrize("end", [stop, leave])
def test_after_the_end_there_is_no_other_round(
    played: TorchRounds, end: Callable[[TorchRounds], None]
) -> None:
    """The agent is not told of ends: it would ask for another round."""
    played.started()
    played.change()
    played.rounds.exited(4, 0)
    end(played)
    played.rounds.exited(5, 0)
    played.change()
    played.forms()
    played.rounds.workers_gone()
    played.requests()
    assert played.came(2 * STUCK) == []
    assert played.codes() == [None, None]
    if end is stop:
        assert played.agent.told() == [{"change": True}]
        played.agent.dies()
        assert played.came() == []


def test_what_happens_after_it_is_closed_begins_nothing(played: TorchRounds) -> None:
    played.started()
    played.rounds.close()
    played.rounds.exited(4, 7)
    played.rounds.workers_gone()
    assert played.came() == []


# -- the notice -----------------------------------------------------------------------------------


@pytest.mark.parametrize("notice", ["SIGUSR1", "file"])
def test_workers_have_notice_of_a_change(agents: FakeAgents, tmp_path: Path, notice: str) -> None:
    played = TorchRounds(agents, notice=notice)
    played.notice()
    assert played.came() == []
    played.started()
    assert not (tmp_path / "file").exists()
    played.notice()
    played.called()
    signals = [("signal_came", signal.SIGUSR1)]
    assert played.came() == signals * (notice == "SIGUSR1")
    assert (tmp_path / "file").exists() == (notice == "file")
    played.rounds.workers_gone()
    played.called()
    assert not (tmp_path / "file").exists()
    played.notice()
    assert played.came() == []
    played.rounds.close()
    os.waitpid(played.pid, 0)


def test_a_notice_that_cannot_be_given_is_told(agents: FakeAgents) -> None:
    played = TorchRounds(agents, notice="no/such/file")
    played.started()
    played.notice()
    played.called()
    ((name, note),) = played.came()
    assert (name, note["signal"]) == ("NOTE", 0)
    assert note["text"].endswith("no/such/file: no such file or directory")
    played.rounds.close()
    os.waitpid(played.pid, 0)


# -- torch's own rounds ---------------------------------------------------------------------------


def told(rank: int, restarts: int = 0) -> dict[str, str]:
    """What torch says of the workers of a round; the first rank here is that."""
    return {
        "RANK": f"{rank}",
        "WORLD_SIZE": "4",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "MASTER_ADDR": "h2",
        "MASTER_PORT": "78",
        "TORCHELASTIC_RESTART_COUNT": f"{restarts}",
        "TORCHELASTIC_MAX_RESTARTS": "3",
    }


@pytest.fixture
def torchs(agents: FakeAgents) -> Iterator[TorchRounds]:
    """Rounds that torch forms."""
    rendezvous = Rendezvous("c10d", "h:1", "id", 1, 2, {}, "", 3, 0.1)
    one = TorchRounds(agents, rendezvous=rendezvous)
    yield one
    one.rounds.close()
    while processes.children():
        os.waitpid(-1, 0)


def test_torch_says_which_ranks_are_here(torchs: TorchRounds) -> None:
    torchs.agent.requests(0, 1, **told(2))
    (name, ranks), started = torchs.came()
    assert name == "RANKS"
    assert ranks == round_messages.Ranks(2, 4, 1, 2, "h2", 78, 0, 3)._asdict()
    name, start = started
    assert name == "workers_requested"
    assert start._replace(agent_variables=()) == START._replace(
        first_rank=2,
        world_size=4,
        node_rank=1,
        nodes=2,
        master_addr="h2",
        master_port=78,
        generation=1,
        max_restarts=3,
    )


def test_torchs_next_round_waits_for_the_end_of_the_one_before(torchs: TorchRounds) -> None:
    torchs.agent.requests(0, 1, **told(2))
    torchs.came()
    first = torchs.agent.shims[0]
    torchs.rounds.exited(2, 5)
    assert first.code == 5
    torchs.agent.requests(0, 1, **told(0, restarts=1))
    assert torchs.came() == []
    torchs.rounds.exited(1, 5)
    assert torchs.codes() == [None, None]
    torchs.rounds.workers_gone()
    (name, ranks), started = torchs.came()
    assert (name, ranks["first_rank"], ranks["restarts"]) == ("RANKS", 0, 1)
    assert started[1].generation == 2
