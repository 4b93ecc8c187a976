"""torch's agent as a process: who reports on its lines, what is told to whom, why it has ended."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control.messages import Start
from dsrun.launcher.control.round_messages import AgentFailure
from dsrun.launcher.features.elastic import node_agent_process as agent_process
from dsrun.launcher.features.elastic.node_agent_process import AgentProcess
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.workers.spawn import SpawnFailed

from ...support.clock import Clock
from ...support.fake_agent import FakeAgents, waited
from ...support.leaks import open_files
from ...support.node_setup import node_setup
from ...support.recorder import Recorder
from ...support.specs import python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.node.workers.spawn import WorkerSpec

START = Start(0, (0, 1), 2, 0, 1, "h", 1, 1)

pytestmark = pytest.mark.usefixtures("adopting")


class Played:
    """An agent of two workers, and what has come of it."""

    def __init__(self, agents: FakeAgents) -> None:
        self.clock = Clock()
        self.heard = Recorder()
        command = partial(agent_process.agent_command, node_setup(agents.task(), print), START)
        self.process = AgentProcess(self.clock.loop, command, self.heard, 2)
        self.agent = agents.accept()

    def came(self) -> list[Any]:
        """What it has told since the last time."""
        self.clock.settle()
        return self.heard.after(lambda: None)


@pytest.fixture
def played(agents: FakeAgents) -> Iterator[Played]:
    one = Played(agents)
    yield one
    one.process.close()
    assert waited(one.process.pid) == -signal.SIGKILL


def test_it_joins(played: Played) -> None:
    played.agent.says(join=4711)
    assert played.came() == [("agent_joined", 4711, 4711)]
    assert played.came() == []


def test_messages_may_come_in_pieces_and_together(played: Played) -> None:
    played.agent._line.send(b'{"jo')
    assert played.came() == []
    played.agent._line.send(b'in": 1}\n{"join": 2}\n')
    assert played.came() == [("agent_joined", 1, 1), ("agent_joined", 2, 2)]


@pytest.mark.parametrize(
    "line",
    [
        *(b"[" * 20_000, b'{"join": Infinity}', b'{"join": [1]}', b"7", b"null", b"\xff"),
        *(b'{"ended": {"text": 1, "more": 2}}', b'{"join": "x"}'),
    ],
)
def test_what_is_no_message_is_dropped(played: Played, line: bytes) -> None:
    played.agent._line.sendall(line + b'\n{"join": 2}\n')
    assert [one for _ in range(9) for one in played.came()] == [("agent_joined", 2, 2)]


def test_it_is_told_its_place_and_to_leave_it(played: Played) -> None:
    played.process.form({"rank": 3})
    assert played.agent.told() == []  # it has not come yet
    played.came()
    played.process.form({"rank": 3})
    played.process.change()
    assert played.agent.told() == [{"round": {"rank": 3}}, {"change": True}]


def test_workers_are_requested_once_all_shims_are_there(played: Played) -> None:
    played.agent.requests(1, RANK="5")
    assert played.came() == []
    played.agent.requests(0, RANK="4")
    assert played.came() == [
        (
            "workers_requested",
            [{"LOCAL_RANK": "0", "RANK": "4"}, {"LOCAL_RANK": "1", "RANK": "5"}],
        )
    ]


def test_shims_of_a_round_before_do_not_count(played: Played) -> None:
    played.agent.requests(0)
    played.came()
    played.process.form({})
    played.agent.requests(1)
    assert played.came() == []
    played.agent.requests(0)
    assert len(played.came()) == 1


def test_a_shim_ends_as_its_worker_has_ended(played: Played) -> None:
    shims = played.agent.requests(0, 1)
    played.came()
    played.process.ended(1, -15)
    assert (shims[0].code, shims[1].code) == (None, -15)
    played.process.ended(1, 3)
    played.process.ended(7, 3)
    played.process.ended(0, 7)
    assert (shims[0].code, shims[1].code) == (7, -15)
    assert played.came() == []


def test_what_torch_does_to_a_shim_is_meant_for_its_worker(played: Played) -> None:
    first, second = played.agent.requests(0, 1)
    played.came()
    first.gets(signal.SIGTERM)
    assert played.came() == [("stop_requested", signal.SIGTERM)]
    second.dies()
    assert played.came() == [("stop_requested", signal.SIGKILL)]
    assert played.came() == []


def test_but_not_what_it_does_to_one_of_a_former_round(played: Played) -> None:
    first, second = played.agent.requests(0, 1)
    played.came()
    played.agent.requests(0)
    played.came()
    first.gets(signal.SIGTERM)
    assert played.came() == []
    played.process.form({})
    second.dies()
    assert played.came() == []


@pytest.mark.parametrize(
    ("left", "event"),
    [
        ({}, ("agent_ended", None)),
        ({"reason": "x"}, ("agent_ended", AgentFailure("x"))),
        ({"reason": "x", "unusable": True}, ("agent_ended", AgentFailure("x", True))),
    ],
)
def test_it_says_why_it_ends(played: Played, left: dict[str, object], event: Any) -> None:
    played.agent.leaves(**left)
    assert played.came() == [event]


def test_its_last_line_is_why_where_it_says_nothing(played: Played) -> None:
    played.came()
    played.agent.dies()
    assert played.came() == [("agent_ended", AgentFailure("torch's agent exited: printed"))]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("import sys; sys.exit('one\\ntwo')", AgentFailure("two", True)),
        ("print('out')", AgentFailure("out", True)),
        ("pass", AgentFailure("torch's agent exited: killed", True)),
    ],
)
def test_one_that_never_comes_lacks_something(text: str, left: AgentFailure) -> None:
    """What, it prints."""
    clock, heard = Clock(), Recorder()

    def agent(stdin: int) -> WorkerSpec:
        return python(text, stdin=stdin)

    process = AgentProcess(clock.loop, agent, heard, 1)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    clock.settle()
    assert heard.calls == [("agent_ended", left)]
    process.close()
    waited(process.pid)


def test_one_that_cannot_be_started_leaves_nothing() -> None:
    clock = Clock()

    def agent(stdin: int) -> WorkerSpec:
        return python("", stdin=stdin)._replace(argv=[b"/no/such"])

    before = open_files()
    with pytest.raises(SpawnFailed):
        AgentProcess(clock.loop, agent, Recorder(), 1)
    assert open_files() == before


def test_nothing_of_one_is_left_once_it_is_closed(agents: FakeAgents) -> None:
    before = len(open_files()) + 1  # the loop's own
    played = Played(agents)
    shims = played.agent.requests(0, 1)
    played.came()
    played.process.form({})
    played.agent.requests(0, 1)
    played.came()
    played.process.close()
    played.agent.close()
    for shim in shims:
        shim.close()
    assert waited(played.process.pid) == -signal.SIGKILL
    assert len(open_files()) == before
    assert played.came() == []
    assert processes.children() == []
    played.process.close()
    played.process.change()
