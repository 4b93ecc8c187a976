"""What follows for roles: where they run, and spares in place of lost nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.backends.events import SessionEnded
from dsrun.launcher.common.errors import SWEPT
from dsrun.launcher.control import frames
from dsrun.launcher.features.elastic.runner_admission import PAUSES
from dsrun.launcher.features.roles.runner_effects import PREFIX, job_of
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
    roles.step()
    for rank in (0, 1):
        roles.node("n1").exits(rank, -15, told=True)
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
