"""When roles start, restart and stop: histories, and what holds whatever happens."""

from __future__ import annotations

import random
import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsrun.launcher.common.errors import NO_PROGRESS
from dsrun.launcher.features.roles.runner_policy import LONGEST_DELAY, TELL_AFTER, Cause, RoleState

from ...support.properties import same_examples
from ...support.roles import RolesWorld, role


def trio(**server: object) -> RolesWorld:
    """A server, a trainer that asks it, and an evaluator that is waited for; all are ready."""
    usual = {"ready": "http"} | server
    world = RolesWorld(
        role("server", "never", **usual),
        role("trainer", "job", "server"),
        role("evaluator", "wait", "server"),
    )
    world.begin()
    return world


def running(**server: object) -> RolesWorld:
    """The same, with all workers running and ready."""
    world = trio(**server)
    world.started("server")
    world.ready("server")
    world.started("trainer", "evaluator")
    return world


def states(world: RolesWorld) -> dict[str, str]:
    return {name: one.state.value for name, one in world.policy.courses.items()}


# -- the start ------------------------------------------------------------------------------------


def test_roles_start_once_those_before_them_are_ready() -> None:
    world = trio()
    assert world.running == {"server"}
    world.started("server")
    assert world.running == {"server"}
    world.ready("server")
    assert world.running == {"server", "trainer", "evaluator"}
    assert "server is ready" in world.said()


def test_roles_that_wait_for_none_start_at_once() -> None:
    world = RolesWorld(role("a", "job"), role("b", "job"))
    world.begin()
    assert world.running == {"a", "b"}


def test_no_role_starts_before_the_nodes_of_all_are_ready() -> None:
    world = RolesWorld(role("a", "never"), role("b", "job", "a"))
    world.begin("a")
    assert world.running == set()
    world.happens(world.policy.role_prepared, "b")
    world.started("a")
    assert world.running == {"a", "b"}


def test_who_waits_for_whom_is_one_line_after_a_while() -> None:
    world = trio()
    world.started("server")
    world.go(TELL_AFTER / 2)
    assert world.said() == []
    world.go(10 * TELL_AFTER)
    line = "trainer waits for server (running); evaluator waits for server (running)"
    assert world.said() == [line]


def test_a_role_that_has_ended_well_counts_as_ready() -> None:
    world = RolesWorld(role("data", "wait", ready="line"), role("trainer", "job", "data"))
    world.begin()
    world.started("data")
    assert world.running == {"data"}
    world.end("data")
    assert world.running == {"trainer"}


# -- clean ends -----------------------------------------------------------------------------------


def test_the_end_of_the_job_stops_services_with_code_0() -> None:
    world = running()
    world.end("evaluator")
    world.end("trainer")
    assert world.stops == [("server", signal.SIGTERM, False)]
    world.end("server")
    assert world.ends == [0]


def test_an_evaluator_is_waited_for() -> None:
    world = running()
    world.end("trainer")
    assert world.stops == []
    world.end("evaluator")
    assert world.stopped() == ["server"]


def test_without_a_role_that_ends_the_job_all_are_waited_for() -> None:
    world = RolesWorld(role("a"), role("b"), role("server", "never"))
    world.begin()
    world.end("a")
    assert world.stops == []
    world.end("b")
    assert world.stopped() == ["server"]


def test_a_service_that_ends_well_while_others_run_has_failed() -> None:
    world = running()
    world.end("server")
    assert world.stopped() == ["trainer", "evaluator"]
    world.end("trainer")
    world.end("evaluator")
    assert world.ends == [NO_PROGRESS]
    assert world.policy.cause is not None
    assert "ended with code 0" in world.policy.cause.why


def test_the_failure_of_a_service_that_is_stopped_at_the_end_does_not_count() -> None:
    world = running()
    world.end("evaluator")
    world.end("trainer")
    world.happens(world.policy.role_failing, "server")
    world.end("server", 1)
    assert world.ends == [0]


# -- failures -------------------------------------------------------------------------------------


def test_a_failure_stops_dependants_first_and_servers_last() -> None:
    world = RolesWorld(
        role("store", "never"),
        role("server", "never", "store"),
        role("trainer", "job", "server"),
        role("evaluator", "wait", "server"),
    )
    world.begin()
    world.started("store", "server", "trainer", "evaluator")
    world.happens(world.policy.role_failing, "evaluator")
    assert world.stopped() == ["trainer"]
    world.end("evaluator", 7)
    assert world.stopped() == ["trainer"]
    world.end("trainer", 1)
    assert world.stopped() == ["trainer", "server"]
    world.end("server")
    assert world.stopped() == ["trainer", "server", "store"]
    world.end("store")
    assert world.ends == [7]
    assert world.policy.cause == Cause("evaluator")


def test_a_failure_that_is_known_at_the_end_only_counts_as_well() -> None:
    world = running()
    world.end("trainer", 3)
    assert world.stopped() == ["evaluator"]
    world.end("evaluator")
    world.end("server")
    assert world.ends == [3]


def test_roles_that_have_not_started_are_left_as_well() -> None:
    world = trio()
    world.end("server", 9)
    assert world.stopped() == ["trainer", "evaluator"]
    world.end("trainer", 143)
    world.end("evaluator", 143)
    assert world.ends == [9]


def test_a_role_that_is_not_ready_in_time_has_failed() -> None:
    world = trio(timeout=20.0)
    world.started("server")
    world.go(20.0)
    assert world.stopped()[0] == "server"
    for name in ("trainer", "evaluator", "server"):
        world.end(name)
    assert world.ends == [NO_PROGRESS]
    assert world.policy.cause == Cause("server", "it was not ready after 20 s (ready_timeout)")


def test_what_is_known_of_the_delay_is_told() -> None:
    world = trio(timeout=20.0)
    world.started("server")
    world.happens(world.policy.role_lacks, "server", "from n1: n3:8000: connection refused")
    world.go(20.0)
    assert world.policy.cause is not None
    assert world.policy.cause.why.endswith("(ready_timeout): from n1: n3:8000: connection refused")


def test_a_role_that_is_ready_in_time_has_all_the_time_then() -> None:
    world = running(timeout=20.0)
    world.go(1000.0)
    assert world.stops == []


# -- restarts -------------------------------------------------------------------------------------


def test_a_server_is_started_again_and_the_trainer_goes_on() -> None:
    world = running(on_failure="restart")
    world.happens(world.policy.role_failing, "server")
    assert states(world)["server"] == "restarting"
    world.end("server", 1)
    assert world.stops == []
    assert world.prepared == {"server"}
    world.happens(world.policy.role_prepared, "server")
    assert "server" in world.running
    assert "server: it has failed; starting it again (restart 1 of 3)" in world.said()


def test_delays_grow_and_the_last_restart_ends_the_job() -> None:
    world = running(on_failure="restart", max_restarts=9)
    delays = []
    for _ in range(9):
        world.end("server", 5)
        since = world.now
        while not world.prepared:
            assert world.policy.due is not None
            world.go(world.policy.due - world.now)
        delays.append(world.now - since)
        world.happens(world.policy.role_prepared, "server")
    assert delays == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, LONGEST_DELAY, LONGEST_DELAY, LONGEST_DELAY]
    world.end("server", 5)
    assert world.stopped() == ["trainer", "evaluator"]
    world.end("trainer")
    world.end("evaluator")
    assert world.ends == [5]


def test_a_role_that_is_not_ready_in_time_is_stopped_and_started_again() -> None:
    world = trio(timeout=20.0, on_failure="restart")
    world.started("server")
    world.go(20.0)
    assert world.stopped() == ["server"]
    world.end("server")
    world.happens(world.policy.role_prepared, "server")
    world.started("server")
    world.ready("server")
    assert world.running == {"server", "trainer", "evaluator"}


def test_what_was_lost_is_told_with_the_restart() -> None:
    world = running(on_failure="restart")
    world.happens(world.policy.role_failing, "server", "lost n1: no heartbeat for 15 s")
    again = "server: lost n1: no heartbeat for 15 s; starting it again (restart 1 of 3)"
    assert again in world.said()
    world = running(on_failure="restart")
    world.end("server", 69, "lost n1: no heartbeat for 15 s")
    assert again in world.said()


@pytest.mark.parametrize("ran", [True, False])
def test_a_node_that_is_lost_before_a_start_costs_no_restart_if_there_is_a_spare(
    ran: bool,
) -> None:
    world = running(on_failure="restart", max_restarts=1) if ran else trio(on_failure="restart")
    if ran:
        world.end("server", 1)
    else:
        world = RolesWorld(role("server", "never", on_failure="restart"), role("trainer", "job"))
        world.begin("server")
    for _ in range(3):
        world.end("server", 69, moves=True)
        assert (states(world)["server"], world.prepared >= {"server"}) == ("waiting", True)
    assert world.policy.courses["server"].restarts == ran
    world.end("server", 69)
    assert world.policy.cause == Cause("server")


def test_without_restarts_a_spare_does_not_help() -> None:
    world = RolesWorld(role("server", "never"), role("trainer", "job"))
    world.begin("server")
    world.end("server", 69, moves=True)
    assert world.policy.cause == Cause("server")


def test_a_role_that_cannot_start_at_all_is_not_tried_again() -> None:
    world = RolesWorld(role("server", "never", on_failure="restart"), role("trainer", "job"))
    world.begin("trainer")
    world.end("server", 69)
    assert world.stopped() == ["trainer"]
    world.end("trainer", 143)
    assert world.ends == [69]


def test_a_service_that_ends_well_is_started_again_if_it_may() -> None:
    world = running(on_failure="restart")
    world.end("server")
    assert world.prepared == {"server"}
    assert world.stops == []


def test_the_end_comes_while_a_server_waits_for_its_restart() -> None:
    world = running(on_failure="restart")
    for _ in range(2):
        world.end("server", 1)
        world.happens(world.policy.role_prepared, "server")
    assert states(world)["server"] == "restarting"
    world.end("evaluator")
    world.end("trainer")
    assert world.ends == [0]
    world.go(100.0)
    assert world.ends == [0]


def test_a_user_restarts_a_role_without_a_failure() -> None:
    world = running()
    world.happens(world.policy.restart_requested, "server")
    assert world.stopped() == ["server"]
    world.end("server")
    world.happens(world.policy.role_prepared, "server")
    assert "server" in world.running
    assert world.policy.courses["server"].restarts == 0


def test_a_role_that_has_ended_is_not_restarted() -> None:
    world = running()
    world.end("evaluator")
    world.happens(world.policy.restart_requested, "evaluator")
    assert world.stops == []
    assert "evaluator" not in world.prepared


# -- signals --------------------------------------------------------------------------------------


def test_one_interrupt_stops_all_in_order() -> None:
    world = running()
    world.happens(world.policy.interrupted, signal.SIGINT)
    assert world.stops == [
        ("trainer", signal.SIGINT, False),
        ("evaluator", signal.SIGINT, False),
    ]
    world.end("trainer", 130)
    world.end("evaluator", 130)
    assert world.stops[-1] == ("server", signal.SIGINT, False)
    world.end("server", 130)
    assert world.ends == [130]


def test_another_signal_goes_to_those_that_are_being_stopped() -> None:
    world = running()
    world.happens(world.policy.interrupted, signal.SIGTERM)
    world.happens(world.policy.interrupted, signal.SIGINT)
    assert world.stops[2:] == [
        ("trainer", signal.SIGINT, False),
        ("evaluator", signal.SIGINT, False),
    ]


def test_a_second_interrupt_kills_all_at_once() -> None:
    world = running()
    world.happens(world.policy.interrupted, signal.SIGINT)
    world.happens(world.policy.killed, signal.SIGINT)
    assert {name for name, _, kill in world.stops if kill} == {"server", "trainer", "evaluator"}
    for name in ("server", "trainer", "evaluator"):
        world.end(name, 130)
    assert world.ends == [130]


def test_who_reads_no_output_stops_all_with_a_signal_that_programs_know() -> None:
    """Python ignores SIGPIPE; the exit code tells of it all the same."""
    world = running()
    world.happens(world.policy.interrupted, signal.SIGPIPE)
    assert {number for _, number, _ in world.stops} == {signal.SIGTERM}
    for name in ("trainer", "evaluator", "server"):
        world.end(name, 143)
    assert world.ends == [128 + signal.SIGPIPE]


def test_workers_that_all_end_well_after_a_signal_may_make_a_clean_end() -> None:
    """Their reports say 0 only where --graceful_term_ok is set."""
    world = running()
    world.happens(world.policy.interrupted, signal.SIGTERM)
    for name in ("trainer", "evaluator", "server"):
        world.end(name)
    assert world.ends == [0]


def test_an_interrupt_before_any_role_has_started() -> None:
    world = RolesWorld(role("a", "job"))
    world.happens(world.policy.job_started)
    world.happens(world.policy.interrupted, signal.SIGINT)
    world.end("a")
    assert world.ends == [128 + signal.SIGINT]


# -- whatever happens -----------------------------------------------------------------------------


def random_roles(chance: random.Random) -> RolesWorld:
    names = [f"r{number}" for number in range(chance.randint(1, 5))]
    ends = [chance.choice(["job", "wait", "never"]) for _ in names]
    ends[chance.randrange(len(ends))] = chance.choice(["job", "wait"])
    roles = [
        role(
            name,
            ends[at],
            *chance.sample(names[:at], chance.randint(0, at)),
            ready=chance.choice(["started", "http"]),
            timeout=chance.choice([5.0, 600.0]),
            on_failure=chance.choice(["job", "restart"]),
            max_restarts=chance.randint(0, 3),
        )
        for at, name in enumerate(names)
    ]
    chance.shuffle(roles)
    return RolesWorld(*roles)


def something_happens(world: RolesWorld, chance: random.Random) -> None:
    """Let happen what can happen to a role, or to the job."""
    name = chance.choice([*world.roles])
    state = world.policy.courses[name].state
    policy = world.policy
    could: list[Any] = [(world.happens, policy.restart_requested, name)]
    if name in world.prepared and state is RoleState.WAITING:
        could += [(world.happens, policy.role_prepared, name)] * 5
    if state is RoleState.STARTING:
        could += [(world.started, name)] * 5
    if state is RoleState.RUNNING:
        could += [(world.ready, name)] * 3
    if name in world.running:
        could += [(world.happens, policy.role_failing, name)]
        could += [(world.end, name, chance.choice([0, 0, 1, 137]))]
    if name in world.prepared and chance.random() < 0.1:
        could += [(world.end, name, 69)]
    if chance.random() < 0.02:
        signals = policy.interrupted, policy.killed
        could = [(world.happens, one, signal.SIGINT) for one in signals]
    happens, *event = chance.choice(could)
    since = len(world.stops)
    stopping = {one for one, course in world.policy.courses.items() if is_stopping(course.state)}
    happens(*event)
    if policy.ending and event[0] != policy.killed:
        check_order(world, {one for one, _, _ in world.stops[since:]} - stopping)


def is_stopping(state: RoleState) -> bool:
    return state in {RoleState.STOPPING, RoleState.RESTARTING}


def check_order(world: RolesWorld, stopped: set[str]) -> None:
    """At the end of a job no role is stopped before those that need it have ended."""
    alive = world.prepared | world.running
    for name in stopped:
        users = {one for one in alive if name in world.roles[one].after}
        assert not users, f"{name} is stopped before {users}"


@given(st.integers(0, 10**9))
@same_examples
def test_every_job_ends_once_and_leaves_nothing(seed: int) -> None:
    """No role starts before those it waits for are ready, which the world checks."""
    chance = random.Random(seed)
    world = random_roles(chance)
    world.happens(world.policy.job_started)
    for _ in range(chance.randint(0, 80)):
        something_happens(world, chance)
        world.go(chance.choice([0.0, 0.1, 7.0]))
    if not world.policy.over:
        world.happens(world.policy.interrupted, signal.SIGTERM)
    for _ in range(20):
        for name in sorted(world.prepared | world.running):
            if world.policy.courses[name].state is RoleState.STOPPING:
                world.end(name, chance.choice([0, 143]))
    assert len(world.ends) == 1
    assert world.prepared | world.running == set()
    world.go(10_000.0)
    assert len(world.ends) == 1
    assert all(one.restarts <= one.role.max_restarts for one in world.policy.courses.values())


@pytest.mark.parametrize("seed", range(30))
def test_a_job_whose_workers_end_well_ends_with_0(seed: int) -> None:
    """Whatever the order in which roles get ready and end is."""
    chance = random.Random(seed)
    world = random_roles(chance)
    world.begin()
    for _ in range(1000):
        if world.policy.over:
            break
        name = chance.choice([*world.roles])
        course = world.policy.courses[name]
        if course.state is RoleState.STARTING:
            world.started(name)
        elif course.state is RoleState.RUNNING:
            world.ready(name)
        elif course.state is RoleState.STOPPING or (
            course.state is RoleState.READY and course.role.ends != "never"
        ):
            world.end(name)
    assert world.ends == [0]
