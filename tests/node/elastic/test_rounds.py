"""Histories of a node's rounds: frames, the agent's messages, exits in; events and frames out.

The agent's process is real, and what it says is said by the test.
"""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.messages import Start
from dsrun.launcher.node import processes
from dsrun.launcher.node.elastic.events import (
    RoundsEnded,
    SignalWorkers,
    StartWorkers,
    StopWorkers,
)
from dsrun.launcher.node.elastic.rounds import STUCK, NodeRounds
from dsrun.launcher.node.workers.prepare import NodeSetup
from dsrun.launcher.specs.rendezvous import Rendezvous

from ...support.clock import Clock
from ...support.fake_agent import FakeAgents
from ...support.fake_nodes import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dsrun.launcher.node.elastic.events import RoundsEvent

START = Start(0, (0, 1), 2, 0, 1, "h", 1, 1)
ROUND = Start(4, (0, 1), 6, 2, 3, "h0", 77, 1, generation=1, otherwise=("h1",))
GRACE = 12.0

pytestmark = pytest.mark.usefixtures("adopting")


class Played:
    """The rounds of a node with two workers, and what has come of them."""

    def __init__(self, agents: FakeAgents, **task: Any) -> None:
        self.clock = Clock()
        self.agents = agents
        self.out: list[Any] = []
        self.setup = NodeSetup(agents.task(grace=GRACE, **task), print)
        self.rounds = NodeRounds(self.clock.loop, self.setup, START, self._send, self.out.append)
        self.agent = agents.accept()

    def _send(self, frame: bytes) -> None:
        ((kind, body),) = frames.Decoder().feed(frame)
        self.out.append((NAMES[kind], json.loads(body)))

    def came(self, seconds: float = 0.0) -> list[Any]:
        """What has come of it since the last time, and so many seconds more."""
        self.clock.settle()
        self.clock.go(seconds)
        self.clock.settle()
        out = self.out[:]
        self.out.clear()
        return out

    def joins(self) -> None:
        """The agent joins a round."""
        self.agent.says(join=4711)
        assert self.came() == [("JOIN", {"port": 4711, "probe": 4711})]

    def forms(self, start: Start = ROUND) -> None:
        """The runner has formed a round."""
        self.rounds.handlers[frames.ROUND](json.dumps(start._asdict()).encode())

    def change(self) -> None:
        """The runner wants another round."""
        self.rounds.handlers[frames.CHANGE](b"")

    def started(self, start: Start = ROUND) -> None:
        """The agent has joined, and requested the workers of a round, which were started."""
        self.joins()
        self.forms(start)
        self.agent.told()
        self.requests()
        assert self.came() == [StartWorkers(found(start))]

    def requests(self) -> None:
        """The agent requests its workers."""
        self.agent.requests(0, 1, MASTER_ADDR="h1")

    def codes(self) -> list[int | None]:
        """How the shims of the newest round were told to end."""
        return [shim.code for shim in self.agent.shims[-2:]]

    def next_agent(self) -> None:
        """Another agent has taken the place of this one."""
        self.agent = self.agents.accept()


def found(start: Start) -> Start:
    """A round with what the agent has said of it."""
    return start._replace(master_addr="h1", agent_variables=({}, {}))


@pytest.fixture
def played(agents: FakeAgents) -> Iterator[Played]:
    one = Played(agents)
    yield one
    one.rounds.close()
    while processes.children():
        os.waitpid(-1, 0)


# -- the runner's rounds --------------------------------------------------------------------------


def test_a_round_from_the_join_to_its_workers(played: Played) -> None:
    assert played.agent.settings["workers"] == 2
    played.joins()
    played.forms()
    assert played.came() == []
    place = {"rank": 2, "nodes": 3, "hosts": ["h0", "h1"], "port": 77}
    assert played.agent.told() == [{"round": place}]
    played.requests()
    assert played.came() == [StartWorkers(found(ROUND))]


def test_the_agent_hears_how_workers_end(played: Played) -> None:
    played.started()
    played.rounds.exited(5, 7)
    assert played.codes() == [None, 7]
    played.rounds.exited(4, -9)
    assert played.codes() == [-9, 7]
    assert played.came() == []


def test_the_agent_stops_the_workers(played: Played) -> None:
    played.started()
    played.agent.shims[0].gets(signal.SIGTERM)
    assert played.came() == [StopWorkers(signal.SIGTERM, GRACE)]
    played.agent.shims[1].dies()
    assert played.came() == [StopWorkers(signal.SIGKILL, 0.0)]
    played.rounds.workers_gone()
    played.agent.shims[0].gets(signal.SIGTERM)
    assert played.came() == []


def test_a_round_waits_for_the_workers_of_the_one_before(played: Played) -> None:
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
    assert played.came() == [StartWorkers(found(second))]
    played.rounds.exited(1, 7)
    assert played.codes() == [None, 7]


def test_an_end_while_the_agent_joins_is_nobodys(played: Played) -> None:
    played.started()
    played.joins()
    played.rounds.exited(4, 0)
    assert played.codes() == [None, None]


def test_an_agent_that_leaves_before_its_workers_started_gets_them_ended(played: Played) -> None:
    """It would wait for their end for as long as torch does."""
    played.started()
    played.joins()
    played.forms(ROUND._replace(generation=2))
    played.requests()
    assert played.came() == []
    played.change()
    played.agent.shims[-2].gets(signal.SIGTERM)
    assert played.came() == [StopWorkers(signal.SIGTERM, GRACE)]
    assert played.codes() == [-signal.SIGTERM] * 2
    played.rounds.workers_gone()
    assert played.came() == []
    third = ROUND._replace(generation=3)
    played.started(third)


def test_a_request_without_a_round_is_no_request(played: Played) -> None:
    played.requests()
    assert played.came() == []
    played.joins()
    played.requests()
    assert played.came() == []


# -- another round is wanted ----------------------------------------------------------------------


def test_the_agent_is_told_to_leave_its_round(played: Played) -> None:
    played.started()
    played.change()
    assert played.agent.told() == [{"change": True}]
    assert played.came(2 * STUCK) == []


def test_ends_are_kept_until_the_agent_has_asked_for_them(played: Played) -> None:
    """A worker may have ended because it was asked to, so that its work is not done."""
    played.started()
    played.change()
    played.rounds.exited(4, 0)
    assert played.codes() == [None, None]
    played.agent.shims[1].gets(signal.SIGTERM)
    assert played.came() == [StopWorkers(signal.SIGTERM, GRACE)]
    assert played.codes() == [0, None]
    played.rounds.exited(5, 3)
    assert played.codes() == [0, 3]


def test_what_was_kept_is_forgotten_with_its_round(played: Played) -> None:
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


def test_an_agent_whose_workers_have_all_ended_well_is_replaced(played: Played) -> None:
    """It waits for the other agents, and heeds nothing else."""
    played.started()
    former = played.rounds.agent
    played.rounds.exited(4, 0)
    played.rounds.exited(5, 0)
    played.change()
    played.next_agent()
    assert played.rounds.agent != former
    assert os.waitpid(former, 0)[1] == signal.SIGKILL
    played.change()  # for whom this is too early
    played.rounds.workers_gone()
    played.started(ROUND._replace(generation=2))


def test_one_of_whose_workers_one_has_failed_is_not(played: Played) -> None:
    played.started()
    played.rounds.exited(4, 0)
    played.rounds.exited(5, 1)
    played.change()
    assert played.agent.told() == [{"change": True}]


def test_an_agent_that_is_stuck_on_its_way_is_replaced(played: Played) -> None:
    """It waits for the ranks of nodes that are gone."""
    played.joins()
    played.forms()
    played.change()
    former = played.rounds.agent
    assert played.came(STUCK - 0.1) == []
    assert played.rounds.agent == former
    assert played.came(0.2) == []
    played.next_agent()
    assert played.rounds.agent != former
    played.started()


@pytest.mark.parametrize("how", ["joins", "requests", "joins and forms"])
def test_one_that_goes_on_in_time_is_not(played: Played, how: str) -> None:
    played.joins()
    played.forms()
    former = played.rounds.agent
    played.change()
    if how == "requests":
        played.requests()
    else:
        played.joins()
    if "forms" in how:
        played.forms(ROUND._replace(generation=2))
    played.came(2 * STUCK)
    assert played.rounds.agent == former


def test_an_agent_that_cannot_be_started_again_ends_the_rounds(played: Played) -> None:
    played.joins()
    played.forms()
    played.change()
    played.agents.python.unlink()
    ((name, left), end) = played.came(STUCK)
    assert (name, left["unusable"]) == ("AGENT_FAILED", False)
    assert left["reason"].startswith("torch's agent does not start: ")
    assert end == RoundsEnded(left["reason"])
    assert played.rounds.over


# -- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "out"),
    [
        ({}, [RoundsEnded("")]),
        ({"reason": ""}, [("AGENT_FAILED", {"reason": "", "unusable": False}), RoundsEnded("")]),
        (
            {"reason": "x", "unusable": True},
            [("AGENT_FAILED", {"reason": "x", "unusable": True}), RoundsEnded("x")],
        ),
    ],
)
def test_the_agents_end_is_the_end_of_the_rounds(
    played: Played, left: dict[str, Any], out: list[Any]
) -> None:
    played.started()
    played.agent.leaves(**left)
    assert played.came() == out
    assert played.rounds.over


def stop(played: Played) -> None:
    played.rounds.stop()


def leave(played: Played) -> None:
    played.agent.leaves()
    played.came()


@pytest.mark.parametrize("end", [stop, leave])
def test_after_the_end_there_is_no_other_round(
    played: Played, end: Callable[[Played], None]
) -> None:
    """The agent is not told of ends: it would ask for another round."""
    played.started()
    played.change()
    played.rounds.exited(4, 0)
    end(played)
    assert played.rounds.over
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


# -- the notice -----------------------------------------------------------------------------------


@pytest.mark.parametrize("notice", ["SIGUSR1", "file"])
def test_workers_have_notice_of_a_change(agents: FakeAgents, tmp_path: Path, notice: str) -> None:
    played = Played(agents, notice=notice)
    played.rounds.handlers[frames.NOTICE](b"")
    assert played.came() == []
    played.started()
    assert not (tmp_path / "file").exists()
    played.rounds.handlers[frames.NOTICE](b"")
    signals: list[RoundsEvent] = [SignalWorkers(signal.SIGUSR1)]
    assert played.came() == signals * (notice == "SIGUSR1")
    assert (tmp_path / "file").exists() == (notice == "file")
    played.rounds.workers_gone()
    assert not (tmp_path / "file").exists()
    played.rounds.handlers[frames.NOTICE](b"")
    assert played.came() == []
    played.rounds.close()
    os.waitpid(played.rounds.agent, 0)


def test_a_notice_that_cannot_be_given_is_told(agents: FakeAgents) -> None:
    played = Played(agents, notice="no/such/file")
    played.started()
    played.rounds.handlers[frames.NOTICE](b"")
    ((name, note),) = played.came()
    assert (name, note["signal"]) == ("NOTE", 0)
    assert note["text"].endswith("no/such/file: no such file or directory")
    played.rounds.close()
    os.waitpid(played.rounds.agent, 0)


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
def torchs(agents: FakeAgents) -> Iterator[Played]:
    """Rounds that torch forms."""
    rendezvous = Rendezvous("c10d", "h:1", "id", 1, 2, {}, "", 3, 0.1)
    one = Played(agents, rendezvous=rendezvous)
    yield one
    one.rounds.close()
    while processes.children():
        os.waitpid(-1, 0)


def test_torch_says_which_ranks_are_here(torchs: Played) -> None:
    torchs.agent.requests(0, 1, **told(2))
    (name, ranks), started = torchs.came()
    assert name == "RANKS"
    assert ranks == messages.Ranks(2, 4, 1, 2, "h2", 78, 0, 3)._asdict()
    assert isinstance(started, StartWorkers)
    assert started.start._replace(agent_variables=()) == START._replace(
        first_rank=2,
        world_size=4,
        node_rank=1,
        nodes=2,
        master_addr="h2",
        master_port=78,
        generation=1,
        max_restarts=3,
    )


def test_torchs_next_round_waits_for_the_end_of_the_one_before(torchs: Played) -> None:
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
    assert started.start.generation == 2
