"""What is done for the roles of a job, and what they are told; the nodes are played by the test."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import LostError, UsageError
from dsrun.launcher.control import frames, messages

from ...support.fake_roles import HOSTS, FakeRoles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.common.errors import DsrunError


@pytest.fixture
def roles() -> Iterator[FakeRoles]:
    made = FakeRoles()
    yield made
    made.close()


def test_all_nodes_are_asked_at_once_and_roles_start_in_order(roles: FakeRoles) -> None:
    roles.begin()
    assert (roles.got("server", frames.START), roles.got("trainer", frames.START)) == (1, 0)
    roles.are_up("server")
    roles.node("n1").beats()
    roles.step()
    assert roles.got("trainer", frames.START) == 2


def test_nothing_starts_before_the_nodes_of_all_roles_are_fit(roles: FakeRoles) -> None:
    roles.job.start()
    roles.connect()
    roles.are_fit("server")
    assert roles.got("server", frames.START) == 0
    roles.are_fit("trainer")
    assert roles.got("server", frames.START) == 1


def test_a_node_that_is_not_fit_ends_the_start(roles: FakeRoles) -> None:
    roles.job.start()
    roles.connect()
    roles.are_fit("server")
    roles.are_fit("trainer", problems=("no such folder",))
    roles.go(1.0)
    assert roles.overs == 1
    assert roles.got("server", frames.START) == 0
    assert "role trainer: the job cannot start" in str(roles.job.make_ending().error)
    assert roles.job.make_ending().code == 69


def test_the_end_of_the_trainer_stops_the_server(roles: FakeRoles) -> None:
    roles.run_all()
    roles.ends("trainer")
    assert roles.got("server", frames.STOP) == 1
    roles.ends("server", -signal.SIGTERM, told=True)
    assert (roles.overs, roles.job.make_ending().code, roles.job.make_ending().words()) == (
        1,
        0,
        "",
    )


def test_a_failure_is_told_before_the_other_workers_of_the_role_have_ended(
    roles: FakeRoles,
) -> None:
    roles.run_all()
    roles.fails("trainer", 3)
    assert roles.states() == {"server": "ready", "trainer": "stopping"}
    roles.node("n1").exits(1, -signal.SIGTERM, told=True)
    roles.node("n1").done()
    roles.node("n2").stops(2, 3)
    roles.step()
    assert roles.got("server", frames.STOP) == 1
    roles.ends("server", -signal.SIGTERM, told=True)
    ending = roles.job.make_ending()
    assert ending.code == 3
    assert ending.words().startswith("dsrun: trainer: rank 0 (n1, local rank 0, pid 4000) exited")
    assert "other roles: server (2 ranks stopped)" in ending.words()
    told = ending.data
    assert (told["role"], told["cause"], told["exit_code"]) == ("trainer", "failure", 3)


def test_a_server_is_started_again_on_its_port_and_the_trainer_is_told(roles: FakeRoles) -> None:
    roles.close()
    roles = FakeRoles(on_failure="restart", ports=("http",))
    roles.run_all()
    assert roles.peers("n1")["server"] == {"hosts": ("n0",), "ports": (7000,)}
    roles.fails("server", 1)
    roles.node("n0").exits(1, -signal.SIGTERM, told=True)
    roles.node("n0").done()
    roles.step()
    jobs = [json.loads(body) for kind, body in roles.node("n0").received if kind == frames.JOB]
    assert [one["ports"] for one in jobs] == [{"http": 0}, {"http": 7000}]
    roles.are_fit("server", ports=(7001,))
    assert roles.got("server", frames.START) == 2
    assert roles.peers("n2")["server"] == {"hosts": ("n0",), "ports": (7001,)}
    assert "server: its former port on n0 is taken: using 7001 instead of 7000" in roles.said()
    assert roles.got("trainer", frames.STOP) == 0
    roles.close()


def test_one_interrupt_stops_the_trainer_first(roles: FakeRoles) -> None:
    roles.run_all()
    roles.job.on_end_signal(signal.SIGINT)
    roles.step()
    assert (roles.got("trainer", frames.STOP), roles.got("server", frames.STOP)) == (2, 0)
    roles.node("n1").stops(0, 1)
    roles.node("n2").stops(2, 3)
    roles.step()
    assert roles.got("server", frames.STOP) == 1
    roles.node("n0").stops(0, 1)
    roles.step()
    assert roles.job.make_ending().code == 128 + signal.SIGINT
    assert "stopped by SIGINT" in roles.job.make_ending().words()


def test_a_second_interrupt_kills_and_a_third_leaves(roles: FakeRoles) -> None:
    roles.run_all()
    for _ in range(2):
        roles.job.on_end_signal(signal.SIGINT)
    roles.step()
    last = [body for kind, body in roles.node("n0").received if kind == frames.STOP][-1]
    assert json.loads(last)["grace"] == 0.0
    roles.job.on_end_signal(signal.SIGINT)
    roles.go(1.0)
    assert roles.job.abandoned
    assert roles.overs == 1
    assert "exiting now; may still be running on: n0, n1, n2" in roles.said()


def test_signals_that_do_not_end_go_to_all_roles(roles: FakeRoles) -> None:
    roles.run_all()
    roles.job.pass_on(signal.SIGUSR1)
    roles.step()
    assert (roles.got("server", frames.SIGNAL), roles.got("trainer", frames.SIGNAL)) == (1, 2)


def test_a_broken_pipe_ends_the_job(roles: FakeRoles) -> None:
    roles.run_all()
    roles.job.on_broken_output()
    roles.job.on_broken_output()
    roles.step()
    assert roles.got("trainer", frames.STOP) == 2


def test_a_node_that_is_lost_before_the_start_is_named(roles: FakeRoles) -> None:
    roles.begin()
    roles.node("n2").leaves()
    roles.go(1.0)
    assert roles.states()["trainer"] == "ended"
    assert roles.states()["server"] == "stopping"
    roles.node("n0").stops(0, 1)
    roles.go(1.0)
    assert "dsrun: trainer: lost n2 before the start" in roles.job.make_ending().words()
    assert roles.job.make_ending().code == 69


def test_another_node_0_calls_the_start_off(roles: FakeRoles) -> None:
    roles.job.start()
    roles.connect()
    roles.job.call_off("another machine answers as node 0")
    roles.go(1.0)
    assert "another machine answers as node 0" in str(roles.job.make_ending().error)


def test_a_job_that_runs_is_not_called_off(roles: FakeRoles) -> None:
    roles.run_all()
    assert roles.job.started
    roles.job.call_off("another machine answers as node 0")
    roles.step()
    assert not roles.job.ending
    assert "another machine answers as node 0" in roles.said()


def stops(roles: FakeRoles, role: str) -> list[messages.Stop]:
    """Return what the first node of a role was told."""
    received = roles.node(HOSTS[role][0]).received
    return [messages.unpack(messages.Stop, body) for kind, body in received if kind == frames.STOP]


def test_a_signal_is_passed_on_to_all_ranks(roles: FakeRoles) -> None:
    roles.run_all()
    assert roles.job.signal_ranks(signal.SIGUSR1) == 6
    roles.step()
    assert [roles.got(name, frames.SIGNAL) for name in HOSTS] == [1, 2]
    assert not roles.job.ending


def test_a_signal_that_ends_jobs_stops_dependants_first(roles: FakeRoles) -> None:
    roles.run_all()
    roles.job.on_end_signal(signal.SIGINT)
    roles.step()
    assert [one.number for one in stops(roles, "trainer")] == [signal.SIGINT]
    assert stops(roles, "server") == []


def test_a_kill_leaves_no_time(roles: FakeRoles) -> None:
    roles.run_all()
    roles.job.stop(signal.SIGKILL, 0.0)
    roles.step()
    assert stops(roles, "trainer")[-1].grace == 0.0
    assert stops(roles, "server")[-1].grace == 0.0


def test_a_grace_is_for_all_roles_together(roles: FakeRoles) -> None:
    roles.run_all()
    roles.job.stop(signal.SIGTERM, 3.0)
    roles.step()
    assert stops(roles, "server") == []
    roles.go(3.0)
    assert stops(roles, "server")[-1].grace == 0.0


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError("no such folder"), 2), (LostError("no such folder"), 75)]
)
def test_an_error_before_the_start_is_its_end(error: DsrunError, code: int) -> None:
    roles = FakeRoles()
    roles.job.start()
    roles.job.fail(error)
    roles.step()
    roles.clock.go(1.0)
    roles.step()
    ending = roles.job.make_ending()
    assert (ending.code, str(ending.error)) == (code, "role server: no such folder")
    roles.close()
