"""Which agent a task gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.elastic.node_dsrun_agent import DsrunAgent
from dsrun.launcher.features.elastic.node_rounds import make_agent
from dsrun.launcher.features.elastic.node_torch_agent import TorchAgent

from ...support.clock import Clock
from ...support.node_setup import node_setup
from ...support.played_rounds import START
from ...support.recorder import Recorder

if TYPE_CHECKING:
    from ...support.fake_agent import FakeAgents


@pytest.mark.parametrize(("torch_agent", "kind"), [(False, DsrunAgent), (True, TorchAgent)])
def test_a_task_says_whose_agent_it_is(
    agents: FakeAgents, torch_agent: bool, kind: type[object]
) -> None:
    """It is not started yet, and has neither a process nor a port."""
    setup = node_setup(agents.task(torch_agent=torch_agent), print)
    heard = Recorder()
    agent = make_agent(Clock().loop, setup, START, heard)
    assert isinstance(agent, kind)
    assert (list(agent.pids), heard.calls) == ([], [])
    agent.close()
