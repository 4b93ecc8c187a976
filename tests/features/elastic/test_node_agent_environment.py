"""What torch's agent tells of its workers, made into a round, its ranks, variables and files."""

from __future__ import annotations

from dsrun.launcher.control.messages import Start
from dsrun.launcher.control.round_messages import Ranks
from dsrun.launcher.features.elastic import node_agent_environment as agent_environment

TEMPLATE = Start(0, ("a", "b"), 2, 0, 1, "h", 1, 99, world="w")
TORCHS = [
    {
        "LOCAL_RANK": f"{local}",
        "RANK": f"{4 + local}",
        "WORLD_SIZE": "8",
        "GROUP_RANK": "2",
        "GROUP_WORLD_SIZE": "3",
        "MASTER_ADDR": "h2",
        "MASTER_PORT": "78",
        "TORCHELASTIC_RESTART_COUNT": "5",
        "TORCHELASTIC_MAX_RESTARTS": "6",
        "TORCHELASTIC_ERROR_FILE": "no",
        "DSRUN_LOG_OUT": f"out{local}",
        "DSRUN_LOG_ERR": "",
    }
    for local in range(2)
]
ROUND = Start(4, ("a", "b"), 8, 2, 3, "h2", 78, 99, None, 7, 5, 6, tuple(map(dict, TORCHS)), "w")


def test_a_round_that_torch_has_formed() -> None:
    assert agent_environment.round_of(TEMPLATE, TORCHS, 7) == ROUND


def test_the_ranks_of_a_round() -> None:
    assert agent_environment.ranks(ROUND) == Ranks(4, 8, 2, 3, "h2", 78, 5, 6)


def test_a_round_of_the_runners_has_the_files_that_the_agent_names() -> None:
    found = agent_environment.of_agent(TEMPLATE, TORCHS)
    files = tuple({"DSRUN_LOG_OUT": f"out{local}", "DSRUN_LOG_ERR": ""} for local in range(2))
    assert found == TEMPLATE._replace(agent_variables=files)
    assert agent_environment.of_agent(TEMPLATE, [{"MASTER_ADDR": "x"}]).agent_variables == ({},)
    assert agent_environment.of_agent(TEMPLATE, []) == TEMPLATE


def test_variables_are_the_agents_but_for_what_is_ours() -> None:
    found = agent_environment.variables(ROUND, 1)
    ours = {"LOCAL_RANK", "TORCHELASTIC_ERROR_FILE", "DSRUN_LOG_OUT", "DSRUN_LOG_ERR"}
    assert found == {name: value for name, value in TORCHS[1].items() if name not in ours}
    assert agent_environment.variables(TEMPLATE, 1) == {}


def test_files_are_those_that_have_a_name() -> None:
    assert agent_environment.log_files(ROUND, 1) == {1: "out1"}
    both = ROUND._replace(agent_variables=({"DSRUN_LOG_OUT": "o", "DSRUN_LOG_ERR": "e"},))
    assert agent_environment.log_files(both, 0) == {1: "o", 2: "e"}
    assert agent_environment.log_files(TEMPLATE, 0) == {}
