"""One program on a fleet, phase by phase: events in; frames, words and report out."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.backends.events import SessionEnded
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control import frames
from dsrun.launcher.head.job.ending import ending_of
from dsrun.launcher.head.run import run_signals, run_start
from dsrun.launcher.head.run.gate import GateStage
from dsrun.launcher.head.run.run_signals import progress
from dsrun.launcher.head.run.run_state import CAUSE_WAIT, LAST_MARGIN, RunState
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.resources import world_info
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.policies import SupervisionPolicy
from dsrun.launcher.specs.program import Program

from ...support.fake_fleet import NOT_STARTED, refusal, story
from ...support.fake_gates import FakeGate

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

TERM = signal.SIGTERM
STOP = ["STOP", {"number": 15, "grace": 30.0}]
LINE = "the connection to its node launcher ended (closed by the other end)"


# -- the start ------------------------------------------------------------------------------------


def test_from_job_to_start(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    assert (run.state.phase, run.state.started, run.state.stopping, run.state.ending) == (
        RunPhase.STARTING,
        *(False,) * 3,
    )
    assert [job.kinds(name) for name in job.hosts] == [["JOB"], ["JOB"]]
    assert progress(run.state) == "0/2 hosts, waiting for n0, n1"
    job.node("n0").hello()
    assert job.news("n0") == []
    assert progress(run.state) == "1/2 hosts, waiting for n1"
    job.node("n1").hello()
    assert job.news("n0") == []
    job.step()
    job.node("n1").reaches()
    (probe,), (start,) = job.news("n1"), job.news("n0")
    assert (probe[0], probe[1]["port"]) == ("PROBE", 29500)
    assert run.state.phase is RunPhase.RUNNING
    named = ("first_rank", "world_size", "node_rank", "nodes", "master_addr", "master_port")
    assert start[0] == "START"
    assert [start[1][name] for name in named] == [0, 4, 0, 2, "n0", 29500]
    assert start[1]["credit"] == 1 << 20
    assert world_info.decode(start[1]["world"]) == {"n0": (0, 1), "n1": (0, 1)}


def test_a_heartbeat_does_not_say_that_the_master_port_is_open(fleet_of: FleetOf) -> None:
    """It may have been sent before START came, by a node that was used before the start."""
    job = fleet_of("n0", "n1")
    run = job.run()
    job.ready(run)
    job.node("n0").says(frames.pack_beat(0.0))
    assert "START" not in job.kinds("n1")
    job.node("n0").beats()
    assert job.kinds("n1") == ["START"]


def test_from_start_to_the_report(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.ready(run)
    assert job.kinds("n1") == ["JOB", "PROBE"], "the first node has to let go of the port before"
    job.node("n0").beats()
    ((kind, start),) = job.news("n1")
    assert (kind, start["first_rank"], start["node_rank"]) == ("START", 2, 1)
    job.up("n0", 0, 1)
    assert progress(run.state).startswith("running: 2 of 2 ranks\n  n0: ranks 0-1, pids 4000-4001")
    job.go(2)
    job.end_well(run)
    end = story(run)
    assert (end["exit_code"], end["cause"], end["hosts"]) == (0, "none", ["n0", "n1"])
    assert (end["world_size"], end["seconds"], end["job_id"]) == (4, 2.0, "job")
    assert job.said() == []
    ending = ending_of(run.view())
    assert (ending.code, ending.text) == (0, "")
    assert ending.report is not None
    assert ending.report.ran == (Program("x.py"), "/work")


def test_what_starts_is_said_with_debug(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    job.start()
    assert job.said("debug") == ["4 workers on 2 nodes; n0: master n0:29500"]
    for rank in range(4):
        job.node(f"n{rank // 2}").prints(rank, "x")
    job.step()
    assert job.console.labels == {rank: (f"n{rank // 2}:{rank}| ", {1, 2}) for rank in range(4)}


def test_a_node_that_connects_later_gets_its_job_then(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", connect=False)
    run = job.run()
    job.connect()
    assert [job.kinds(name) for name in job.hosts] == [["JOB"], ["JOB"]]
    job.ready(run)
    assert run.state.phase is RunPhase.RUNNING


def test_a_node_that_is_prepared_first_gets_its_job_as_it_is_there(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    gate = FakeGate()
    job.prepare(gates=gate.at(GateStage.JOB)).start()
    assert [job.kinds(name) for name in job.hosts] == [[], []]
    assert [[node.name for node in held] for held in gate.held] == [["n0"], ["n1"]]
    gate.held[1][0].change_job = lambda task: task._replace(workdir="/there")
    gate.passes(1)
    assert job.kinds("n0") == []
    ((kind, task),) = job.news("n1")
    assert (kind, task["workdir"], task["host"]) == ("JOB", "/there", "n1")


def test_a_run_of_hosts_that_the_fleet_does_not_have(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    job.hosts["other"] = Host("other", (0,))
    with pytest.raises(UsageError, match=r"^other: not among the connected nodes: n0, n1$"):
        job.prepare("other")


def test_no_start_with_a_node_that_the_fleet_has_lost(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    job.node("n1").leaves()
    job.step()
    run = job.run()
    assert run.state.phase is RunPhase.STARTING, "n0 has its say first"
    job.node("n0").hello(problems=("no folder /work",))
    job.step()
    assert refusal(run) == [f"n1: lost: {LINE}"]
    assert job.kinds("n0") == ["JOB"]


def test_who_does_not_answer_in_time_cannot_take_part(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run(supervision=SupervisionPolicy(start_timeout=60.0, heartbeat_timeout=1e9))
    job.node("n0").hello()
    job.go(59.5)
    assert run.state.phase is RunPhase.STARTING
    job.go(0.5)
    late = "n1: no answer in time (--connect_timeout, --start_timeout)"
    assert refusal(run, NOT_STARTED) == [late]


def test_the_others_are_waited_for_only_as_long_as_a_connection_takes(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run(supervision=SupervisionPolicy(connect_timeout=7.0))
    job.node("n0").hello(problems=("no such script",))
    job.go(6.5)
    assert run.state.phase is RunPhase.STARTING
    job.go(0.5)
    assert run.state.ending


def test_a_start_that_is_called_off(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    run.handle(run_start.call_off, "another answers as node 0")
    assert refusal(run) == ["another answers as node 0"]
    ending = ending_of(run.view())
    assert ending.error is run.state.error
    assert (ending.code, ending.text) == (69, f"dsrun: {run.state.error}")


def test_a_program_that_runs_is_not_called_off(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    run.handle(run_start.call_off, "another answers as node 0")
    assert (run.state.phase, job.said("warning")) == (
        RunPhase.RUNNING,
        ["another answers as node 0"],
    )
    assert job.news("n0") == []


# -- a failure ------------------------------------------------------------------------------------


def test_a_failure_stops_every_node_with_the_grace(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start(supervision=SupervisionPolicy(grace=3.0))
    job.node("n1").exits(2, 7)
    stop = ["STOP", {"number": 15, "grace": 3.0}]
    assert [job.news(name) for name in job.hosts] == [[stop], [stop]]
    assert (run.state.phase, run.state.stopping, run.state.ending) == (
        RunPhase.STOPPING,
        True,
        False,
    )
    job.node("n1").stops(3)
    job.step()
    assert run.state.phase is RunPhase.STOPPING
    job.node("n0").stops(0, 1)
    job.step()
    end = story(run)
    assert (end["exit_code"], end["cause"], end["stopped"]) == (7, "failure", 3)
    assert [one["rank"] for one in end["failures"]] == [2]
    ending = ending_of(run.view())
    assert ending.code == 7
    assert ending.text.startswith("dsrun: rank 2 (n1, local rank 0, pid 4002) exited with")


def test_nobody_is_started_once_the_first_node_has_failed(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.ready(run)
    run.handle(RunState.stop, TERM)
    job.node("n0").beats()
    assert "START" not in job.kinds("n1")


def test_who_does_not_say_that_its_workers_have_ended_is_given_up(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    run = job.start(supervision=SupervisionPolicy(grace=5.0))
    job.node("n1").exits(2, 7)
    job.step()
    job.node("n0").stops(0, 1)
    job.go(5.0 + LAST_MARGIN - 0.5)
    assert run.state.phase is RunPhase.STOPPING
    job.go(0.5)
    end = story(run)
    silent = "it did not report the end of its workers"
    assert end["lost"] == [{"host": name, "reason": silent} for name in ("n1", "n2")]
    assert end["exit_code"] == 7, "the failure came first"
    assert end["unseen"] == [
        "may still be running on n1: pid 4003",
        "may still be running on n2: pids 4004-4005",
    ]


def test_of_a_run_that_is_over_nobody_is_given_up(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    run.handle(RunState.stop, TERM)
    job.node("n0").stops(0, 1)
    job.node("n1").stops(2, 3)
    job.step()
    job.go(30 + LAST_MARGIN + 1)
    assert story(run)["lost"] == []


def test_a_second_stop_passes_its_signal_on_and_waits_no_longer(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    run.handle(RunState.stop, TERM)
    job.go(10)
    run.handle(RunState.stop, signal.SIGINT, 0.0)
    kill = ["STOP", {"number": 2, "grace": 0.0}]
    assert job.news("n1") == [STOP, kill]
    job.go(20 + LAST_MARGIN - 0.5)
    assert run.state.phase is RunPhase.STOPPING
    job.go(0.5)
    assert run.state.ending


# -- a loss ---------------------------------------------------------------------------------------


def test_the_loss_of_a_node_stops_the_others(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    run.handle(RunState.lose, run.state.nodes[1], "no power")
    assert job.news("n0") == [STOP]
    job.node("n0").stops(0, 1)
    job.step()
    end = story(run)
    assert (end["exit_code"], end["cause"]) == (75, "lost")
    assert end["lost"] == [{"host": "n1", "reason": "no power"}]
    (unseen,) = end["unseen"]
    assert unseen == "may still be running on n1: pids 4002-4003"


def test_when_a_lost_node_ends_its_workers_itself_is_said(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.run(supervision=SupervisionPolicy(grace=5.0, heartbeat_timeout=16.0))
    job.ready(run, pids=(4710, 4711))
    job.up("n0", 0, 1)
    run.handle(RunState.lose, run.state.nodes[0], "no power")
    (unseen,) = story(run)["unseen"]
    ends = "the node kills them within 21 s (guard 4710, launcher 4711); if both were stopped or"
    assert unseen.startswith(f"may still be running on n0: pids 4000-4001; {ends}")


def test_what_ended_workers_have_started_may_run_on_a_lost_node(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n1").exits(2, 0)
    job.node("n1").exits(3, 0)
    job.step()
    run.handle(RunState.lose, run.state.nodes[1], "no power")
    job.node("n0").stops(0, 1)
    job.step()
    unseen = "may still be running on n1: workers, or processes that they started"
    assert story(run)["unseen"] == [unseen]


def test_workers_that_a_lost_node_was_starting_may_run_on(fleet_of: FleetOf) -> None:
    """Not on a node that had no START yet."""
    job = fleet_of("n0", "n1")
    run = job.run()
    job.ready(run)
    for node in run.state.nodes:
        run.handle(RunState.lose, node, "no power")
    unseen = "may still be running on n0: workers, or processes that they started"
    assert story(run)["unseen"] == [unseen]


def test_of_a_lost_node_whose_guard_has_cleaned_up_nothing_runs_on(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.start()
    run.handle(RunState.lose, run.state.nodes[0], "no power")
    run.state.nodes[0].cleaned_up = True
    assert story(run)["unseen"] == []


def test_who_is_lost_twice_is_lost_once_and_who_is_done_not_at_all(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n0").exits(0, 0)
    job.node("n0").exits(1, 0)
    job.node("n0").done()
    job.step()
    run.handle(RunState.lose, run.state.nodes[0], "late")
    assert run.state.phase is RunPhase.RUNNING
    run.handle(RunState.lose, run.state.nodes[1], "no power")
    run.handle(RunState.lose, run.state.nodes[1], "no cable")
    assert [one["reason"] for one in story(run)["lost"]] == ["no power"]


def test_who_says_that_it_must_go_may_yet_say_that_it_is_done(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    run.handle(RunState.lose, run.state.nodes[1], "its guard was killed", over=False)
    assert (run.state.nodes[1].lost, run.state.nodes[1].over) == ("", False)
    job.node("n1").stops(2, 3)
    job.node("n0").stops(0, 1)
    job.step()
    end = story(run)
    assert end["lost"] == [{"host": "n1", "reason": "its guard was killed"}]
    assert end["unseen"] == []


# -- the end --------------------------------------------------------------------------------------


def test_a_backend_has_a_moment_to_say_why_a_line_has_ended(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.start()
    job.node("n0").leaves()
    job.step()
    assert (run.state.phase, run.state.ending) == (RunPhase.ENDING, True)
    job.clock.go(CAUSE_WAIT / 2)
    job.emit(SessionEnded(0, "Connection reset by peer"))
    assert [one["reason"] for one in story(run)["lost"]] == ["Connection reset by peer"]


def test_it_is_not_waited_for_longer_and_not_where_all_is_known(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.start()
    job.node("n0").leaves()
    job.step()
    job.clock.go(CAUSE_WAIT - 0.01)
    run.handle(RunState.finish)
    assert run.state.phase is RunPhase.ENDING
    job.clock.go(0.01)
    end = story(run)
    assert [one["reason"] for one in end["lost"]] == [LINE]
    assert end["seconds"] == 0.0, "it ended when the line did"


def test_a_run_that_is_abandoned_waits_for_nobody(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    run.handle(RunState.stop, TERM)
    job.go(3)
    run.handle(RunState.abandon)
    assert run.state.abandoned
    assert story(run)["seconds"] == 3.0


def test_to_end_twice_ends_once(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    run = job.run()
    run.handle(RunState.finish)
    job.go(3)
    run.handle(RunState.finish)
    assert (run.state.phase, story(run)["seconds"]) == (RunPhase.OVER, 0.0)


# -- several runs on one fleet --------------------------------------------------------------------


def test_one_program_after_another(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2")
    first = job.start()
    job.end_well(first)
    first.wait()
    assert story(first)["exit_code"] == 0
    other = {"program": Program("other.py")}
    second = job.run("n2", "n1", plan=other)
    assert job.kinds("n0") == []
    (sent,) = job.news("n2")
    assert (sent[0], sent[1]["program"]) == ("JOB", {"script": "other.py"})
    job.ready(second)
    job.node("n2").beats()
    ((kind, start),) = job.news("n2")
    assert (kind, start["first_rank"], start["node_rank"]) == ("START", 0, 0)
    assert [one[1]["first_rank"] for one in job.news("n1") if one[0] == "START"] == [2]
    job.node("n1").exits(2, 3)
    job.step()
    assert [job.kinds(name) for name in job.hosts] == [[], ["STOP"], ["STOP"]]
    job.node("n1").stops(3)
    job.node("n2").stops(0, 1)
    job.step()
    second.wait()
    assert story(second)["exit_code"] == 3
    last = job.start()
    job.end_well(last)
    end = story(last)
    assert (end["exit_code"], end["world_size"], end["lost"]) == (0, 6, [])


def test_a_run_that_is_refused_leaves_the_fleet_whole(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    refused = job.run()
    job.node("n0").hello(problems=("x.py: no such file",))
    job.node("n1").hello()
    job.step()
    refused.wait()
    assert refusal(refused) == ["n0: x.py: no such file"]
    refused.release(refused.state.nodes)
    give_up = ["STOP", {"number": 15, "grace": 0.0}]
    assert [job.news(name)[1:] for name in job.hosts] == [[give_up], [give_up]]
    last = job.start()
    job.end_well(last)
    assert story(last)["exit_code"] == 0
    last.release(last.state.nodes)
    assert [job.kinds(name) for name in job.hosts] == [[], []], "it was started"


def test_a_run_that_is_over_hears_no_more_of_its_nodes(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.end_well(run)
    run.wait()
    job.node("n1").leaves()
    job.step()
    assert story(run)["lost"] == []
    assert job.said("warning") == [f"lost n1: {LINE}"]


def test_a_run_that_ends_while_its_start_is_refused_leaves_no_timer_behind(
    fleet_of: FleetOf,
) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    run.handle(run_start.call_off, "no")
    run.wait()
    later = job.run()
    for node in job.nodes():
        node.hello()  # to the first
    job.ready(later)
    job.go(400)
    assert later.state.phase is RunPhase.RUNNING
    assert job.said() == []


def test_two_runs_at_a_time_on_nodes_of_their_own(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    one, other = job.start("n0"), job.start("n1")
    job.node("n0").exits(0, 1)
    assert job.kinds("n1") == []
    job.node("n0").stops(1)
    job.step()
    assert (one.state.phase, other.state.phase) == (RunPhase.OVER, RunPhase.RUNNING)
    job.end_well(other)
    assert (story(one)["exit_code"], story(other)["exit_code"]) == (1, 0)


# -- signals of a scheduler -----------------------------------------------------------------------


@pytest.mark.parametrize(("code", "expected"), [(-TERM, 143), (128 + TERM, 143), (7, 7)])
def test_a_worker_that_a_schedulers_signal_has_ended_is_not_the_cause(
    fleet_of: FleetOf, code: int, expected: int
) -> None:
    """Its end may be heard of before the signal that its node has got as well."""
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n1").exits(2, code)
    job.node("n1").notes("the node launcher received SIGTERM", TERM)
    job.step()
    job.node("n0").stops(0, 1)
    job.node("n1").stops(3)
    job.step()
    told = story(run)
    assert told["exit_code"] == expected
    assert told["cause"] == ("signal" if expected == 143 else "failure")


def test_workers_that_end_with_0_after_the_word_of_a_signal_have_not_ended_well(
    fleet_of: FleetOf,
) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n1").notes("the node launcher received SIGTERM", TERM)
    job.end_well(run)
    assert (story(run)["exit_code"], story(run)["cause"]) == (143, "signal")


def test_a_signal_that_comes_once_the_run_is_over_is_recorded_until_that_is_told(
    fleet_of: FleetOf,
) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.end_well(run)
    assert story(run)["exit_code"] == 0
    run.handle(run_signals.on_end_signal, TERM)
    assert story(run)["exit_code"] == 143
