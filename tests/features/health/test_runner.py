"""The site's own check of nodes before a job starts: what is run, and what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.command_messages import CommandExit
from dsrun.launcher.features.health.runner import UNANSWERED, Health
from dsrun.launcher.head.fleet.commands import WINDOW
from dsrun.launcher.head.run import run_signals
from dsrun.launcher.head.run.gate import Gates, GateStage
from dsrun.launcher.head.run.run_signals import progress
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.specs.environment import ForwardedEnv
from dsrun.launcher.specs.policies import CheckPolicy

from ...support import exec_nodes
from ...support.fake_fleet import refusal
from ...support.fake_gates import FakeGate

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.run.run import Run

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

CHECKS = CheckPolicy(health_command="check --gpus", health_timeout=20.0)
CLOSED = "the connection to its node launcher ended (closed by the other end)"


def begun(fleet: FakeFleet, **more: Any) -> Run:
    """A run whose nodes have all said HELLO, so that the command runs on them."""
    run = fleet.run(checks=CHECKS, **more)
    for node in fleet.nodes():
        node.hello()
    fleet.step()
    return run


def end(fleet: FakeFleet, name: str, code: int, output: bytes = b"", hint: str = "") -> None:
    """Have the command on a node print something, and end."""
    if output:
        exec_nodes.prints(fleet.node(name), output)
    exec_nodes.exits(fleet.node(name), code, hint)
    fleet.step()


def test_the_command_runs_on_each_node_as_a_worker_would(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1")
    begun(fleet, travel=ForwardedEnv({"NCCL_DEBUG": "INFO"}))
    for node in fleet.nodes():
        (asked,) = exec_nodes.asked(node)
        assert (asked["argv"], asked["workdir"]) == (["sh", "-c", "check --gpus"], "/work")
        assert (asked["env"]["NCCL_DEBUG"], asked["env"]["DSRUN_JOB_ID"]) == ("INFO", "job")
        assert asked["seconds"] == 20.0


def test_its_folder_is_that_of_the_job_on_that_node(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")

    folder = FakeGate()

    def gates(run: Run) -> Gates:
        return Gates([(GateStage.JOB, lambda: folder), (GateStage.NODE, lambda: Health(run))])

    fleet.prepare(checks=CHECKS, gates=gates).start()
    folder.held[0][0].change_job = lambda task: task._replace(workdir="/copy")
    folder.passes()
    fleet.node("n0").hello()
    fleet.step()
    (asked,) = exec_nodes.asked(fleet.node("n0"))
    assert asked["workdir"] == "/copy"


def test_the_job_starts_once_the_command_has_succeeded_everywhere(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1")
    run = begun(fleet)
    end(fleet, "n0", 0, b"all is well\n")
    assert progress(run.state) == "1/2 hosts, waiting for n1"
    assert not fleet.node("n1").got(frames.PROBE)()
    end(fleet, "n1", 0)
    fleet.node("n1").reaches()
    fleet.step()
    assert (run.state.phase, fleet.said("warning")) == (RunPhase.RUNNING, [])


def test_nodes_that_fail_are_named_with_what_they_printed_last(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1", "n2", "n3")
    run = begun(fleet)
    end(fleet, "n0", 0)
    for name in ("n1", "n2"):
        end(fleet, name, 3, b"checking\nGPU 1: fallen off the bus\n\n")
    end(fleet, "n3", 0, hint="stopped after 20 s")
    assert refusal(run) == [
        "n1, n2: --health_command failed (exit code 3): GPU 1: fallen off the bus",
        "n3: --health_command failed (stopped after 20 s)",
    ]


def test_a_command_that_prints_much_may_go_on(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    run = begun(fleet)
    for _ in range(8):
        exec_nodes.prints(fleet.node("n0"), b"x" * (WINDOW // 2))
        fleet.step()
    assert (run.state.phase, exec_nodes.was_sent(fleet.node("n0"), frames.EXEC_CREDIT)) == (
        RunPhase.STARTING,
        True,
    )


def test_a_killed_command_has_failed(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    run = begun(fleet)
    end(fleet, "n0", -9)
    assert refusal(run) == ["n0: --health_command failed (killed by signal 9)"]


def test_it_is_not_run_where_the_checks_have_failed(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    run = fleet.run(checks=CHECKS)
    fleet.node("n0").hello(problems=("no such folder",))
    fleet.step()
    assert exec_nodes.asked(fleet.node("n0")) == []
    assert refusal(run) == ["n0: no such folder"]


def test_the_limits_of_the_start_do_not_count_while_it_runs(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1")
    run = begun(fleet)
    end(fleet, "n0", 1)
    fleet.go(run.spec.supervision.connect_timeout + 5.0)
    assert run.state.phase is RunPhase.STARTING
    end(fleet, "n1", 0)
    assert refusal(run) == ["n0: --health_command failed (exit code 1)"]


def test_a_node_that_is_lost_meanwhile_cannot_take_part(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1")
    run = begun(fleet)
    end(fleet, "n0", 0)
    fleet.node("n1").leaves()
    fleet.step()
    assert refusal(run) == [f"n1: {CLOSED}"]


def test_a_second_hello_meanwhile_is_a_fault(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    run = begun(fleet)
    fleet.node("n0").hello()
    fleet.step()
    assert refusal(run) == ["n0: it sent an invalid frame of kind 33: a second HELLO"]


def test_the_end_of_the_run_stops_it(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1")
    run = begun(fleet)
    end(fleet, "n0", 0)
    run.handle(run_signals.on_end_signal, 2)
    fleet.step()
    assert run.state.ending
    assert [exec_nodes.was_sent(node, frames.EXEC_STOP) for node in fleet.nodes()] == [False, True]
    end(fleet, "n1", 1)
    assert run.state.error is None, "what comes later is of no interest"


def test_a_node_that_never_tells_of_its_end_is_given_up(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0", "n1")
    run = begun(fleet)
    end(fleet, "n0", 0)
    fleet.go(CHECKS.health_timeout + UNANSWERED + 1.0)
    assert refusal(run) == ["n1: --health_command did not end within 20 s, and cannot be stopped"]


def test_what_an_earlier_check_says_late_is_not_about_a_newer_one(fleet_of: FleetOf) -> None:
    fleet = fleet_of("n0")
    run = fleet.run(checks=CHECKS)
    gate, outcomes = Health(run), list[object]()

    def check() -> None:
        nodes = run.state.nodes
        run.handle(lambda _run: gate.check(nodes, lambda refused, _: outcomes.append(refused)))
        fleet.step()

    check()
    check()
    first = exec_nodes.asked(fleet.node("n0"))[0]["id"]
    fleet.node("n0").says(messages.pack(frames.EXEC_EXIT, CommandExit(first, 1, "")))
    fleet.step()
    assert outcomes == []
    end(fleet, "n0", 0)
    assert outcomes == [{}]
