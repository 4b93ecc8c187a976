"""What a run does with the events of its fleet, in each phase in which they can come."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.backends.events import EngineEnded, EngineOutput, SessionEnded
from dsrun.launcher.control import frames, messages
from dsrun.launcher.head.fleet.events import NO_MESSAGE
from dsrun.launcher.head.run.restart_policy import NoRestarts
from dsrun.launcher.head.run.run_state import CAUSE_WAIT, RunState
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.specs.policies import CheckPolicy, OutputPolicy

from ...support.fake_fleet import NOT_STARTED, losses, refusal, story

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.run.run_node import RunNode

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

CLOSED = "closed by the other end"
LINE = f"the connection to its node launcher ended ({CLOSED})"
SWEPT = "the node launcher was killed by SIGKILL; its workers were stopped"


# -- before the start -----------------------------------------------------------------------------


def test_a_line_that_ends_before_hello_waits_for_its_backends_word(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.node("n0").hello()
    job.node("n1").leaves()
    job.step()
    assert run.state.phase is RunPhase.STARTING
    job.emit(SessionEnded(1, "python3: not found"))
    assert refusal(run) == ["n1: python3: not found"]


def test_a_session_that_ends_without_a_word_too_early(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.node("n0").hello()
    job.emit(SessionEnded(1, ""))
    assert refusal(run) == [f"n1: {NO_MESSAGE}"]


def test_a_line_that_ends_after_hello_is_the_cause_itself(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.node("n1").hello()
    job.step()
    job.node("n1").leaves()
    job.node("n0").hello()
    job.step()
    assert refusal(run) == [f"n1: its node launcher disconnected before the start ({CLOSED})"]


def test_what_a_node_did_wrong_is_the_cause(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.node("n1").exits(2, 0)
    job.node("n0").hello()
    job.step()
    assert refusal(run) == ["n1: it sent an invalid frame of kind 36: rank 2 is not on this node"]


def test_a_node_that_failed_once_has_failed(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.emit(SessionEnded(1, "no route"))
    job.emit(SessionEnded(1, "killed by the runner"))
    job.node("n0").hello()
    job.step()
    assert refusal(run) == ["n1: no route"]


def test_a_node_that_falls_silent_before_the_start_cannot_take_part(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", lease=6.0)
    run = job.run()
    for node in job.nodes():
        job.fleet.expect_beats(job.fleet.nodes[node.rank])
    job.fleet.watch()
    job.node("n1").hello()
    job.go(6.0, silent=["n1"])
    job.node("n0").hello()
    job.step()
    assert refusal(run, NOT_STARTED) == ["n1: no heartbeat for 6 s"]


# -- while it runs --------------------------------------------------------------------------------


def test_a_line_that_ends_is_a_loss_and_the_backend_may_say_why(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n1").leaves()
    assert job.kinds("n0") == ["STOP"]
    job.emit(SessionEnded(1, "Connection reset by peer"))
    job.node("n0").stops(0, 1)
    job.step()
    assert losses(run) == {"n1": "Connection reset by peer"}


def test_a_fault_needs_no_word_of_a_backends(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n1").exits(0, 0)
    job.step()
    job.emit(SessionEnded(1, "killed"))
    job.node("n0").stops(0, 1)
    job.step()
    assert losses(run) == {"n1": "it sent an invalid frame of kind 36: rank 0 is not on this node"}


def test_a_node_that_has_started_the_ranks_of_another_is_lost(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n1").says(messages.pack(frames.STARTED, messages.WorkersStarted((0,), (7,))))
    job.step()
    job.emit(SessionEnded(1, "killed"))
    job.node("n0").stops(0, 1)
    job.step()
    assert losses(run) == {"n1": "it sent an invalid frame of kind 45: rank 0 is not on this node"}


def test_the_end_of_the_line_of_a_node_that_is_done_is_no_loss(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n1").stops(2, 3)
    job.step()
    job.node("n1").leaves()
    job.step()
    assert (run.state.phase, job.kinds("n0")) == (RunPhase.RUNNING, [])
    job.node("n0").stops(0, 1)
    job.step()
    assert losses(run) == {}


def test_a_silent_node_is_lost(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", lease=6.0)
    run = job.start()
    job.go(6.0, silent=["n1"])
    assert job.kinds("n0") == ["STOP"]
    job.node("n0").stops(0, 1)
    job.step()
    assert losses(run) == {"n1": "no heartbeat for 6 s"}


NETWORK = (
    f", nor from any other node: the network of {os.uname().nodename}, where dsrun runs, has failed"
)


def test_all_nodes_that_are_silent_together_are_this_machines_network(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", "n2", lease=16.0)
    run = job.start()
    job.go(18.0, silent=["n0", "n1", "n2"])
    job.step()
    reason = f"no heartbeat for 16 s{NETWORK}"
    assert losses(run) == dict.fromkeys(("n0", "n1", "n2"), reason)


def test_nodes_that_are_silent_one_after_the_other_are_not(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", lease=16.0)
    run = job.start()
    job.go(14.5, silent=["n0", "n1"])
    job.go(5.0, silent=["n1"])
    job.go(16.0, silent=["n0", "n1"])
    assert set(losses(run).values()) == {"no heartbeat for 16 s"}


def test_the_silence_of_a_node_that_is_done_is_no_loss(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1", lease=6.0)
    run = job.start()
    job.node("n1").stops(2, 3)
    job.go(7.0, silent=["n1"])
    assert (run.state.phase, job.kinds("n0")) == (RunPhase.RUNNING, [])
    job.node("n0").stops(0, 1)
    job.step()
    assert losses(run) == {}


@pytest.mark.parametrize(("cause", "unseen"), [(SWEPT, 0), ("killed by SIGKILL", 1)])
def test_a_guards_word_that_all_is_swept_takes_the_doubt_away(
    cause: str, unseen: int, fleet_of: FleetOf
) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n1").leaves()
    job.step()
    job.emit(SessionEnded(1, cause))
    job.node("n0").stops(0, 1)
    job.step()
    assert len(story(run)["unseen"]) == unseen


def test_a_cause_may_be_known_before_the_connection_ends(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.emit(SessionEnded(1, "killed by SIGKILL"))
    assert run.state.phase is RunPhase.RUNNING
    job.node("n1").leaves()
    job.step()
    job.node("n0").stops(0, 1)
    job.step()
    assert (run.state.phase, losses(run)) == (RunPhase.OVER, {"n1": "killed by SIGKILL"})


def test_the_line_of_a_node_that_is_stopping_ends(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    run.handle(RunState.stop, 15)
    job.node("n1").leaves()
    job.node("n0").stops(0, 1)
    job.step()
    job.emit(SessionEnded(1, "gone"))
    assert losses(run) == {"n1": "gone"}


# -- at the end -----------------------------------------------------------------------------------


def test_words_that_come_while_it_ends_end_it_once_the_last_is_there(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    for name in ("n0", "n1"):
        job.node(name).leaves()
        job.step()
    assert run.state.phase is RunPhase.ENDING
    job.emit(SessionEnded(0, "reset"))
    assert run.state.phase is RunPhase.ENDING
    job.emit(SessionEnded(1, ""))
    assert losses(run) == {"n0": "reset", "n1": LINE}


def test_while_it_ends_lines_end_as_they_should(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n1").leaves()
    job.step()
    job.node("n0").stops(0, 1)
    job.step()
    assert run.state.phase is RunPhase.ENDING
    job.node("n0").leaves()
    job.clock.go(CAUSE_WAIT)
    assert losses(run) == {"n1": LINE}


# -- the engine -----------------------------------------------------------------------------------


def test_words_of_an_engine_are_shown_to_who_waits(fleet_of: FleetOf) -> None:
    job = fleet_of("n0")
    job.run(output=OutputPolicy(level="debug"))
    job.emit(EngineOutput("mpirun: hello"))
    assert job.said() == ["mpirun: hello"]


def test_an_engine_that_ends_before_the_start_is_the_cause_for_all(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.node("n0").hello()
    job.step()
    job.emit(EngineEnded("mpirun: no such option", 1, False))
    assert refusal(run) == ["n0, n1: mpirun: no such option"]


def test_an_engine_that_ends_before_the_start_has_no_node_go_on_without_the_others(
    fleet_of: FleetOf,
) -> None:
    """It ends its node launchers one after another."""
    job = fleet_of("n0", "n1", "n2")
    run = job.run(checks=CheckPolicy(quick=False, least=1))
    job.node("n2").hello()
    job.step()
    job.emit(EngineEnded("mpirun ended (SIGKILL)", 75, True))
    assert refusal(run) == ["n[0-2]: mpirun ended (SIGKILL)"]


def test_an_engine_that_ends_because_a_node_failed_is_not_the_cause(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.run()
    job.emit(SessionEnded(1, "no route"))
    job.emit(EngineEnded("mpirun exited with code 1", 1, False))
    assert refusal(run) == ["n1: no route"]


@pytest.mark.parametrize("killed", [False, True])
def test_an_engine_that_ends_while_nodes_run_stops_them(killed: bool, fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.go(2)
    job.emit(EngineEnded("mpirun exited with code 3", 3, killed))
    assert "STOP" in job.kinds("n0")
    job.node("n0").stops(0, 1)
    job.node("n1").stops(2, 3)
    job.step()
    assert (story(run)["exit_code"], losses(run)) == (3, {"": "mpirun exited with code 3"})


def test_an_engine_that_ends_after_all_nodes_says_nothing(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n0").leaves()
    job.step()
    job.node("n1").stops(2, 3)
    job.step()
    assert run.state.phase is RunPhase.ENDING
    job.emit(EngineEnded("mpirun exited with code 3", 3, False))
    assert run.state.phase is RunPhase.ENDING
    job.clock.go(CAUSE_WAIT)
    end = story(run)
    assert (end["exit_code"], losses(run)) == (3, {"n0": "mpirun exited with code 3"})


def test_of_a_run_whose_nodes_are_all_done_an_engines_end_changes_nothing(
    fleet_of: FleetOf,
) -> None:
    job = fleet_of("n0")
    run = job.start()
    job.node("n0").exits(0, 0)
    job.node("n0").exits(1, 0)
    job.node("n0").done()
    job.step()
    job.emit(EngineEnded("mpirun exited with code 3", 3, False))
    assert (story(run)["exit_code"], losses(run)) == (0, {})


def test_a_signal_that_nodes_got_from_an_engine_that_was_killed_counts_for_nothing(
    fleet_of: FleetOf,
) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n0").notes("got SIGTERM", 15)
    job.step()
    job.emit(EngineEnded("mpirun was killed by SIGKILL", 75, True))
    job.node("n0").stops(0, 1)
    job.node("n1").stops(2, 3)
    job.step()
    end = story(run)
    assert (end["signal"], end["exit_code"]) == (None, 75)


def test_a_signal_that_an_engine_passes_on_is_the_cause(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n0").notes("got SIGTERM", 15)
    job.step()
    job.emit(EngineEnded("mpirun exited with code 143", 75, False))
    job.node("n0").stops(0, 1)
    job.node("n1").stops(2, 3)
    job.step()
    end = story(run)
    assert (end["signal"], end["exit_code"]) == (15, 143)


def test_where_the_restart_policy_needs_no_engine_its_end_is_told_with_debug(
    fleet_of: FleetOf,
) -> None:
    class Lasting(NoRestarts):
        def outlives_engine(self) -> bool:
            return True

    job = fleet_of("n0", "n1")
    run = job.start(restarts=Lasting)
    job.said()
    job.emit(EngineEnded("mpirun has ended", 1, False))
    assert (run.state.phase, job.said("debug")) == (RunPhase.RUNNING, ["mpirun has ended"])
    assert job.kinds("n0") == []


def test_the_restart_policy_hears_how_sessions_end_while_the_run_goes_on(
    fleet_of: FleetOf,
) -> None:
    heard: list[tuple[str, str]] = []

    class Hearing(NoRestarts):
        def on_node_end(self, node: RunNode, cause: str) -> None:
            heard.append((node.name, cause))

    job = fleet_of("n0", "n1")
    run = job.start(restarts=Hearing)
    job.emit(SessionEnded(1, "no route"))
    assert heard == [("n1", "no route")]
    run.handle(RunState.finish)
    job.emit(SessionEnded(1, "late"))
    assert heard == [("n1", "no route")]


def test_a_frame_of_another_kind_of_run(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n1").says(frames.pack_json(frames.READY, {"port": 1, "probe": 2}))
    job.node("n0").stops(0, 1)
    job.step()
    assert losses(run) == {"n1": "it sent an invalid frame of kind 41: not expected in this job"}
