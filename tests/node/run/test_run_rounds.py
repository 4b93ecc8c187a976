"""Histories of one run of an elastic job on a node, with either agent: real workers, many rounds.

torch's agent is played by the test.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.control.messages import Start
from dsrun.launcher.node.machine import processes
from dsrun.launcher.specs.program import Program

from ...support.fake_runner import TRAP
from ...support.leaks import open_files
from ...support.played_run import Played

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_agent import Agent, FakeAgents

TWO = Start(0, (0, 1), 2, 0, 1, "h", 29500, 1 << 20)
DAEMON = "sleep 600 >/dev/null 2>&1 & exit "

pytestmark = pytest.mark.usefixtures("adopting")


def shell(text: str) -> Program:
    """A program that is a shell text."""
    return Program("/bin/sh", ("-c", text), no_python=True, local_rank=False)


# -- torch's agent --------------------------------------------------------------------------------

ROUND = TWO._replace(generation=1)


def with_torch(agents: FakeAgents, text: str, **fields: Any) -> tuple[Played, Agent]:
    """A run whose agent has been told its first round, and its agent."""
    program = shell(text)._replace(python=str(agents.python))
    played = Played(agents.task(program=program, **fields))
    played.run.start(TWO)
    return played, agents.accept()


def agent_forms(played: Played, agent: Agent, start: Start = ROUND) -> None:
    """The agent joins a round, which is formed, and requests its workers."""
    joins = played.names().count("READY") + 1
    started = played.names().count("STARTED") + played.names().count("EXIT") + 1
    agent.says(join=1)
    played.until(lambda: played.names().count("READY") == joins)
    played.run.receive(frames.ROUND, json.dumps(start._asdict()).encode())
    agent.requests(0, 1, MASTER_ADDR="h")
    played.until(lambda: played.names().count("STARTED") + played.names().count("EXIT") >= started)


def codes(agent: Agent) -> list[int | None]:
    """How the shims of the newest round were told to end."""
    return [shim.code for shim in agent.shims[-2:]]


def test_a_round_ends_well_and_so_does_the_run(agents: FakeAgents) -> None:
    played, agent = with_torch(agents, "exit 0")
    agent_forms(played, agent)
    played.until(lambda: codes(agent) == [0, 0])
    assert played.ends == 0
    agent.leaves()
    done = played.done()
    assert (done["reason"], done["tails"], processes.children()) == ("", {}, [])
    assert sorted(played.exits()) == [(0, 0, False), (1, 0, False)]
    assert not played.run.leaves_background


def test_one_round_follows_another_with_what_is_left_of_its_credit(agents: FakeAgents) -> None:
    played, agent = with_torch(agents, "echo $TORCHELASTIC_RESTART_COUNT; exit 7")
    agent_forms(played, agent, ROUND._replace(credit=6))
    played.until(lambda: codes(agent) == [7, 7])
    agent_forms(played, agent, ROUND._replace(generation=2, restarts=1, credit=1 << 20))
    played.until(lambda: codes(agent) == [7, 7])
    played.prints("1\n")
    assert len(played.output()) == 6  # two bytes of credit were left
    played.run.receive(frames.CREDIT, (1 << 20).to_bytes(8, "big"))
    agent.leaves(reason="x")
    done = played.done()
    assert played.output() == "0\n0\n1\n1\n"
    assert (done["reason"], sorted(done["tails"])) == ("x", ["0", "1"])
    assert played.all(frames.AGENT_FAILED) == [{"reason": "x", "unusable": False}]


def test_the_agent_stops_its_workers(agents: FakeAgents) -> None:
    played, agent = with_torch(agents, "exec sleep 600")
    agent_forms(played, agent)
    agent.shims[0].gets(signal.SIGTERM)
    played.until(lambda: codes(agent) == [-15, -15])
    assert played.ends == 0
    played.run.stop(signal.SIGTERM, 30.0)
    assert played.done()["tails"] == {}


def test_a_worker_of_a_round_that_cannot_start_is_told_to_the_agent(agents: FakeAgents) -> None:
    played, agent = with_torch(agents, "echo well", log_dir="logs")
    (agents.folder / "logs" / "j").write_text("")
    agent_forms(played, agent)
    assert codes(agent) == [126, 126]
    played.skip(0.0)
    (agents.folder / "logs" / "j").unlink()
    agent_forms(played, agent, ROUND._replace(generation=2))
    played.until(lambda: codes(agent) == [0, 0])
    agent.leaves()
    played.done()
    assert sorted(played.exits()) == [(0, 0, False), (0, 126, False), (1, 0, False)]
    assert played.output() == "well\nwell\n", "the credit of the first round is left"


def test_a_round_goes_on_without_logs_if_its_disk_does_not_answer(agents: FakeAgents) -> None:
    """What waits for the disk is not a process that a round has left, and the next one has logs."""
    text = "until [ -e go ]; do sleep 0.01; done; echo text"
    played, agent = with_torch(agents, text, log_dir="logs", lease=100.0)
    agent_forms(played, agent)
    (pid,) = played.run._specs.files.pids
    os.kill(pid, signal.SIGSTOP)
    (agents.folder / "go").touch()
    played.until(lambda: len(played.exits()) == 2)
    for _ in range(6):
        played.skip(50.0)
    played.until(lambda: codes(agent) == [0, 0])
    played.until(lambda: not played.run._specs.files.pids)
    agent_forms(played, agent, ROUND._replace(generation=2))
    played.until(lambda: codes(agent) == [0, 0])
    agent.leaves()
    done = played.done()
    assert (done["left"], set(played.run.stuck), processes.children()) == ([], set(), [])
    folder = agents.folder / "logs" / "j"
    ((note, _),) = played.notes()
    assert note == f"{folder}: nothing could be written for 50 s; the logs end here"
    assert (folder / "rank-0001.out").read_text() == "text\n"


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_stop_while_no_worker_runs_ends_the_agent(agents: FakeAgents, rounds: int) -> None:
    """Before the first round, or between two."""
    played, agent = with_torch(agents, "exit 0", allow_background=True)
    for _ in range(rounds):
        agent_forms(played, agent)
        played.until(lambda: codes(agent) == [0, 0])
        played.skip(0.0)
    played.run.stop(signal.SIGTERM, 30.0, reason="why")
    assert not played.all(frames.EXIT)[2 * rounds :]
    played.run.receive(frames.LEAVE_ROUND, b"")
    played.run.stop(signal.SIGTERM, 30.0)
    assert played.done()["reason"] == "why"
    assert processes.children() == []


def test_a_stop_while_workers_run_is_not_told_to_the_agent(agents: FakeAgents) -> None:
    played, agent = with_torch(agents, "exec sleep 600")
    agent_forms(played, agent)
    agent.told()
    played.run.stop(signal.SIGTERM, 30.0)
    played.done()
    assert sorted(played.exits()) == [(0, -15, True), (1, -15, True)]
    assert codes(agent) == [None, None]
    assert agent.told() == []


def test_an_agent_that_dies_ends_the_run(agents: FakeAgents) -> None:
    played, agent = with_torch(agents, "exec sleep 600")
    agent_forms(played, agent)
    agent.dies()
    assert played.done()["reason"] == "torch's agent exited: printed"
    assert {code for _, code, _ in played.exits()} <= {-signal.SIGTERM, -signal.SIGKILL}
    assert [signalled for _, _, signalled in played.exits()] == [True, True]
    assert processes.children() == []


def test_an_agent_that_cannot_start_ends_the_run(agents: FakeAgents) -> None:
    played = Played(agents.task())
    agents.python.unlink()
    played.run.start(TWO)
    assert played.names() == ["AGENT_FAILED", "DONE"]
    (failure,) = played.all(frames.AGENT_FAILED)
    assert failure["reason"].startswith("torch's agent could not be started: ")
    assert not failure["unusable"]
    assert played.all(frames.DONE)[0]["reason"] == failure["reason"]


def test_what_a_round_leaves_is_gone_before_the_next(agents: FakeAgents) -> None:
    played, agent = with_torch(agents, f"echo $$; {DAEMON}0")
    agent_forms(played, agent)
    played.until(lambda: codes(agent) == [0, 0])
    agent_forms(played, agent, ROUND._replace(generation=2))
    played.until(lambda: codes(agent) == [0, 0])
    agent.leaves()
    played.done()
    assert processes.children() == []


def test_a_notice_is_for_the_workers(agents: FakeAgents) -> None:
    text = f'exec {sys.executable} -ISc "{TRAP.format(then="sys.exit(5)")}"'
    played, agent = with_torch(agents, text, notice="SIGUSR1")
    agent_forms(played, agent)
    played.until(lambda: played.output().count("ready") == 2)
    played.run.receive(frames.CHANGE_SOON, b"")
    played.until(lambda: codes(agent) == [5, 5])
    played.run.stop(signal.SIGTERM, 0.0)
    played.done()


# -- without torch's agent ------------------------------------------------------------------------


def without_torch(agents: FakeAgents, text: str, **fields: Any) -> Played:
    """A run that has joined its first round."""
    fields = {"program": shell(text), "torch_agent": False, **fields}
    played = Played(agents.task(**fields))
    played.run.start(TWO)
    assert played.names() == ["READY"]
    return played


def joins(played: Played, count: int) -> None:
    """Run until the node has joined so many rounds."""
    played.until(lambda: played.names().count("READY") == count)


def forms(played: Played, generation: int = 1, **more: Any) -> None:
    """The runner has formed a round, whose first node this is."""
    port = played.all(frames.READY)[-1]["port"]
    start = ROUND._replace(generation=generation, master_port=port, **more)
    played.run.receive(frames.ROUND, json.dumps(start._asdict()).encode())


WAITS = f'exec {sys.executable} -ISc "{TRAP.format(then="sys.exit(0)")}"'
"""Ends with code 0 when it is stopped."""


def test_all_workers_end_well(agents: FakeAgents) -> None:
    """The node stays until the runner ends the job."""
    text = "echo $TORCHELASTIC_USE_AGENT_STORE $MASTER_ADDR $TORCHELASTIC_RESTART_COUNT"
    played = without_torch(agents, text)
    forms(played, restarts=2)
    played.until(lambda: "FINISHED" in played.names())
    assert played.output() == "False h 2\n" * 2
    assert played.names() == ["READY", "STARTED", "EXIT", "EXIT", "FINISHED"]
    assert played.all(frames.FINISHED) == [{"generation": 1}]
    played.run.stop(signal.SIGTERM, 0.0)
    done = played.done()
    assert (done["reason"], done["tails"], processes.children()) == ("", {}, [])


def test_all_output_is_passed_on_before_the_runner_hears_of_the_end(agents: FakeAgents) -> None:
    """It stops the job at that, and would miss the rest."""
    played = without_torch(agents, "echo 12345678")
    forms(played, credit=4)
    played.until(lambda: played.names().count("EXIT") == 2)
    played.skip(100.0)
    assert "FINISHED" not in played.names()
    played.run.receive(frames.CREDIT, (1 << 20).to_bytes(8, "big"))
    played.until(lambda: "FINISHED" in played.names())
    assert played.output().count("12345678") == 2
    played.run.stop(signal.SIGTERM, 0.0)
    played.done()


def test_a_worker_fails_and_the_next_round_follows(agents: FakeAgents) -> None:
    """The other worker, which would run on, is stopped by the node itself."""
    trap = TRAP.format(then="sys.exit(0)")
    fails = "test $RANK$TORCHELASTIC_RESTART_COUNT = 10 && exit 7"
    played = without_torch(agents, f'{fails}; exec {sys.executable} -ISc "{trap}"')
    forms(played)
    joins(played, 2)
    assert sorted((rank, told) for rank, _, told in played.exits()) == [(0, True), (1, False)]
    assert played.names()[-1] == "READY"
    forms(played, 2, restarts=1)
    played.until(lambda: played.output().count("ready") >= 2)
    played.run.stop(signal.SIGTERM, 30.0)
    assert played.done()["tails"] == {}
    ports = [one["port"] for one in played.all(frames.READY)]
    assert len(set(ports)) == 2


@pytest.mark.parametrize("text", ["exit $((RANK + 3))", "exec 1>&- 2>&-; exit 3"])
def test_workers_that_fail_together_end_before_the_next_round(
    agents: FakeAgents, text: str
) -> None:
    """No end is told after the JOIN: the runner would count it for the next round."""
    played = without_torch(agents, text)
    for generation in range(1, 6):
        forms(played, generation)
        joins(played, generation + 1)
        assert played.names()[-1] == "READY"
        assert played.names().count("EXIT") == 2 * generation
    played.run.stop(signal.SIGTERM, 30.0)
    played.done()


def test_a_change_restarts_workers_that_run(agents: FakeAgents) -> None:
    played = without_torch(agents, WAITS)
    forms(played)
    played.until(lambda: played.output().count("ready") == 2)
    played.run.receive(frames.LEAVE_ROUND, b"")
    joins(played, 2)
    assert sorted(played.exits()) == [(0, 0, True), (1, 0, True)]
    forms(played, 2, first_rank=4)
    played.until(lambda: played.output().count("ready") == 4)
    assert played.all(frames.STARTED)[-1]["ranks"] == [4, 5]
    played.run.stop(signal.SIGTERM, 30.0)
    played.done()
    assert "FINISHED" not in played.names()


def test_a_stubborn_worker_is_killed_before_the_next_round(agents: FakeAgents) -> None:
    trap = TRAP.format(then="pass")
    played = without_torch(agents, f'exec {sys.executable} -ISc "{trap}"', grace=60.0)
    forms(played)
    played.until(lambda: played.output().count("ready") == 2)
    played.run.receive(frames.LEAVE_ROUND, b"")
    played.until(lambda: played.output().count("15\n") == 2)
    assert played.names().count("READY") == 1
    played.skip(60.0)
    joins(played, 2)
    assert sorted(played.exits()) == [(0, -9, True), (1, -9, True)]
    played.run.stop(signal.SIGTERM, 30.0)
    played.done()


def test_a_node_that_has_finished_takes_part_in_another_round(agents: FakeAgents) -> None:
    played = without_torch(agents, "exit 0")
    for generation in (1, 2):
        forms(played, generation)
        played.until(lambda: played.names()[-1] == "FINISHED")
        played.run.receive(frames.LEAVE_ROUND, b"")
        joins(played, generation + 1)
    assert played.all(frames.FINISHED) == [{"generation": 1}, {"generation": 2}]
    played.run.stop(signal.SIGTERM, 0.0)
    played.done()


def test_what_a_round_has_left_is_gone_before_the_runner_hears_of_its_end(
    agents: FakeAgents,
) -> None:
    played = without_torch(agents, f"{DAEMON}0")
    forms(played)
    played.until(lambda: "FINISHED" in played.names())
    assert processes.children() == []
    played.run.stop(signal.SIGTERM, 0.0)
    played.done()


@pytest.mark.parametrize("here", [0, 1])
def test_a_worker_that_cannot_start_has_failed(agents: FakeAgents, here: int) -> None:
    """All of them, or the second after the first one has started; the node takes part again."""
    played = without_torch(agents, "exec sleep 600", log_dir="logs")
    log = agents.folder / "logs" / "j"
    if here:
        log.mkdir(parents=True)
        (log / "rank-0001.out").mkdir()
    else:
        log.parent.mkdir(exist_ok=True)
        log.write_text("")
    forms(played)
    joins(played, 2)
    ranks = {rank: code for rank, code, _ in played.exits()}
    assert 126 in ranks.values()
    assert processes.children() == []
    assert "FINISHED" not in played.names()
    played.run.stop(signal.SIGTERM, 30.0)
    played.done()


def running(played: Played) -> None:
    forms(played)
    played.until(lambda: played.output().count("ready") == 2)


def changing(played: Played) -> None:
    running(played)
    played.run.receive(frames.LEAVE_ROUND, b"")


def between(played: Played) -> None:
    changing(played)
    joins(played, 2)


def joined(played: Played) -> None:
    """The node waits for its first round."""


@pytest.mark.parametrize("how", ["stop", "abandon"])
@pytest.mark.parametrize("when", [joined, running, changing, between])
def test_a_stop_ends_the_run_whatever_it_does(
    agents: FakeAgents, when: Callable[[Played], None], how: str
) -> None:
    before = open_files()
    played = without_torch(agents, WAITS)
    when(played)
    count = played.names().count("READY")
    if how == "stop":
        played.run.stop(signal.SIGTERM, 30.0, reason="why")
    else:
        played.run.stop_without_runner("why")
    assert played.done()["reason"] == "why"
    assert (played.names().count("READY"), processes.children()) == (count, [])
    played.run.receive(frames.LEAVE_ROUND, b"")
    played.skip(100.0)
    assert played.names()[-1] == "DONE"
    del played
    assert len(open_files()) <= len(before) + 3  # the loop, and what wakes it
