"""What is done for the roles of a job, and what they are told; the nodes are played by the test."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.backends.events import SessionEnded
from dsrun.launcher.common.errors import SWEPT
from dsrun.launcher.control import frames
from dsrun.launcher.head.elastic.admission import PAUSES
from dsrun.launcher.head.roles.roles_job import PREFIX, job_of
from dsrun.launcher.specs.policies import ElasticPolicy, OutputPolicy, SupervisionPolicy
from dsrun.launcher.specs.roles import Ready, RoleSpec

from ...support.fake_roles import HOSTS, FakeRoles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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
    roles.job.begin()
    roles.connect()
    roles.are_fit("server")
    assert roles.got("server", frames.START) == 0
    roles.are_fit("trainer")
    assert roles.got("server", frames.START) == 1


def test_a_node_that_is_not_fit_ends_the_start(roles: FakeRoles) -> None:
    roles.job.begin()
    roles.connect()
    roles.are_fit("server")
    roles.are_fit("trainer", problems=("no such folder",))
    roles.go(1.0)
    assert roles.overs == 1
    assert roles.got("server", frames.START) == 0
    assert "role trainer: the job cannot start" in str(roles.job.conclude().error)
    assert roles.job.conclude().code == 69


def test_the_end_of_the_trainer_stops_the_server(roles: FakeRoles) -> None:
    roles.run_all()
    roles.ends("trainer")
    assert roles.got("server", frames.STOP) == 1
    roles.ends("server", -signal.SIGTERM, told=True)
    assert (roles.overs, roles.job.conclude().code, roles.job.conclude().words()) == (1, 0, "")


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
    ending = roles.job.conclude()
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


def test_a_node_without_a_role_takes_the_place_of_a_lost_one() -> None:
    roles = FakeRoles(on_failure="restart", ports=("http",), spares=("n3",))
    roles.run_all()
    roles.node("n0").leaves()
    roles.node("n0").ends(f"the node launcher was killed by SIGKILL; {SWEPT}", 0.1)
    roles.go(1.0)
    assert "server: n0 is lost; n3 takes its place" in roles.said()
    spare = roles.node("n3")
    spare.hello(port=29500, ports=(7000,))
    roles.step()
    assert spare.got(frames.START)()
    assert roles.peers("n2")["server"] == {"hosts": ("n3",), "ports": (7000,)}
    assert roles.got("trainer", frames.STOP) == 0
    roles.close()


def off(roles: FakeRoles, name: str, *, silent: Sequence[str] = ()) -> None:
    """Lose a node whose node launcher was killed, and ended its workers."""
    roles.node(name).leaves()
    roles.node(name).ends(f"the node launcher was killed by SIGKILL; {SWEPT}", 0.1)
    roles.go(1.0, silent=silent)


def test_an_idle_spare_that_falls_silent_is_told_once_and_not_chosen() -> None:
    roles = FakeRoles(on_failure="restart", spares=("n3", "n4"))
    roles.run_all()
    assert roles.node("n3").got(frames.LEASE)()
    roles.go(40.0, silent=["n3"])
    assert [line for line in roles.said() if "n3" in line] == ["lost n3: no heartbeat for 15 s"]
    off(roles, "n0")
    assert "server: n0 is lost; n4 takes its place" in roles.said()
    roles.close()


def test_a_spare_that_has_been_silent_for_long_is_not_the_first_choice() -> None:
    roles = FakeRoles(on_failure="restart", spares=("n3", "n4"))
    roles.run_all()
    roles.go(8.0, silent=["n3"])
    off(roles, "n0", silent=["n3"])
    assert "server: n0 is lost; n4 takes its place" in roles.said()
    roles.close()


def test_a_spare_that_turns_out_to_be_dead_costs_no_restart() -> None:
    """It is not given the time for the checks of a JOB, as it has not said that it makes them."""
    roles = FakeRoles(on_failure="restart", max_restarts=1, spares=("n3", "n4"))
    roles.run_all()
    off(roles, "n0", silent=["n3"])
    assert "server: n0 is lost; n3 takes its place" in roles.said()
    roles.go(16.0, silent=["n3"])
    assert "server: n3 is lost; n4 takes its place" in roles.said()
    roles.node("n4").hello(port=29500)
    roles.step()
    assert roles.node("n4").got(frames.START)()
    assert roles.job.policy.courses["server"].restarts == 1
    roles.close()


def test_a_spare_that_says_that_it_makes_its_checks_has_time_for_them() -> None:
    roles = FakeRoles(on_failure="restart", spares=("n3", "n4"))
    roles.run_all()
    off(roles, "n0")
    roles.node("n3").beats()
    roles.step()
    roles.go(100.0, silent=["n3"])
    assert not any("n3 is lost" in line for line in roles.said())
    roles.close()


def test_a_spare_that_cannot_be_reached_is_told() -> None:
    roles = FakeRoles(spares=("n3",))
    roles.backend.absent = {"n3"}
    roles.begin()
    roles.emit(SessionEnded(3, "no route to host"))
    assert roles.said()[-1] == "cannot reach n3, a spare: no route to host"
    roles.close()


def elastic_trainer(spares: tuple[str, ...] = ("n3",)) -> FakeRoles:
    """A job whose elastic trainer runs on n1 and n2, in its first round."""
    roles = FakeRoles(spares=spares, elastic=ElasticPolicy(1, 2, 3))
    roles.begin()
    roles.are_up("server")
    join(roles, "n1", "n2")
    for name, ranks in (("n1", (0, 1)), ("n2", (2, 3))):
        roles.up(name, *ranks)
    return roles


def lose(roles: FakeRoles, name: str) -> None:
    """Lose a node, whose workers have ended; it cannot be reached again."""
    roles.backend.absent = {name}
    roles.node(name).leaves()
    roles.node(name).ends(f"the node launcher was killed by SIGKILL; {SWEPT}", 0.0)


def join(roles: FakeRoles, *names: str) -> None:
    """Have nodes ready for a round; the last one reaches the first of it."""
    for name in names:
        roles.node(name).joins(4000)
        roles.step()
    made = roles.backend.made
    for name in ("n2", "n3"):
        if any(one.name == name and one.open and one.got(frames.PROBE)() for one in made):
            roles.node(name).reaches()
    roles.step()


def test_an_elastic_role_has_a_spare_for_a_node_that_is_not_reached_again() -> None:
    roles = elastic_trainer()
    lose(roles, "n2")
    join(roles, "n1")
    roles.go(PAUSES.first - 1.0)
    assert "takes its place" not in "".join(roles.said())
    roles.go(2.0)
    roles.emit(SessionEnded(2, "no route to host"))
    assert "trainer: n2 is lost; n3 takes its place" in roles.said()
    roles.node("n3").hello()
    roles.go(1.0)
    assert "trainer: n3 is here" in roles.said()
    join(roles, "n3", "n1")
    assert roles.node("n3").got(frames.ROUND)()
    roles.up("n3", 2, 3)
    assert roles.peers("n1")["trainer"]["hosts"] == ("n1", "n3")
    assert roles.got("server", frames.STOP) == 0
    roles.go(2 * PAUSES.longest)
    assert roles.backend.started.count([2]) == 1, "n2 is not looked for any more"
    roles.close()


def test_an_elastic_role_without_a_spare_looks_for_its_node() -> None:
    roles = elastic_trainer(spares=())
    lose(roles, "n2")
    roles.go(PAUSES.first + 1.0)
    roles.emit(SessionEnded(2, "no route to host"))
    assert "takes its place" not in "".join(roles.said())
    roles.go(2 * PAUSES.longest)
    assert roles.backend.started.count([2]) > 1
    roles.close()


def test_one_interrupt_stops_the_trainer_first(roles: FakeRoles) -> None:
    roles.run_all()
    roles.job.end(signal.SIGINT)
    roles.step()
    assert (roles.got("trainer", frames.STOP), roles.got("server", frames.STOP)) == (2, 0)
    roles.node("n1").stops(0, 1)
    roles.node("n2").stops(2, 3)
    roles.step()
    assert roles.got("server", frames.STOP) == 1
    roles.node("n0").stops(0, 1)
    roles.step()
    assert roles.job.conclude().code == 128 + signal.SIGINT
    assert "stopped by SIGINT" in roles.job.conclude().words()


def test_a_second_interrupt_kills_and_a_third_leaves(roles: FakeRoles) -> None:
    roles.run_all()
    for _ in range(2):
        roles.job.end(signal.SIGINT)
    roles.step()
    last = [body for kind, body in roles.node("n0").received if kind == frames.STOP][-1]
    assert json.loads(last)["grace"] == 0.0
    roles.job.end(signal.SIGINT)
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
    assert "dsrun: trainer: lost n2 before the start" in roles.job.conclude().words()
    assert roles.job.conclude().code == 69


def test_a_role_is_a_part_of_the_whole_job(roles: FakeRoles) -> None:
    whole = roles.spec()._replace(
        job_id="whole", supervision=SupervisionPolicy(heartbeat_timeout=7.0), environ={"A": "b"}
    )
    own = roles.spec("n0")._replace(output=OutputPolicy(report_file="mine"))
    job = job_of(RoleSpec("server", own, "never", ports=("http",), ready=Ready()), whole)
    assert (job.job_id, job.role, job.ports, job.held) == ("whole", "server", ("http",), True)
    assert (job.output.prefix, job.output.report_file) == (PREFIX, None)
    assert job.supervision.heartbeat_timeout == 7.0
    assert job.watch.hang_timeout == 0.0  # a server that waits for requests is no hang
    assert job.workers.role == "server"
    assert [node.host.name for node in job.plan.nodes] == list(HOSTS["server"])


def test_another_node_0_calls_the_start_off(roles: FakeRoles) -> None:
    roles.job.begin()
    roles.connect()
    roles.job.call_off("another machine answers as node 0")
    roles.go(1.0)
    assert "another machine answers as node 0" in str(roles.job.conclude().error)


def test_a_job_that_runs_is_not_called_off(roles: FakeRoles) -> None:
    roles.run_all()
    assert roles.job.started
    roles.job.call_off("another machine answers as node 0")
    roles.step()
    assert not roles.job.ending
    assert "another machine answers as node 0" in roles.said()
