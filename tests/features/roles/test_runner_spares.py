"""Nodes without a role, which take the place of lost ones."""

from __future__ import annotations

from dsrun.launcher.features.roles.runner_spares import Spares
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program

ALL = [Host("h1", (0, 1)), Host("h2", (0, 1)), Host("h3", (0,)), Host("h4", (0, 1), user="bob")]


def plan(*hosts: Host) -> Plan:
    return Plan(lay_out(hosts), Program("x"), "ssh", None, None)


class Job:
    """A job whose roles have these plans, and which of its nodes are lost."""

    def __init__(self, *plans: Plan, hosts: list[Host] = ALL) -> None:
        self.lost: set[str] = set()
        self.spares = Spares(hosts, plans, lost=lambda name: name in self.lost)

    def lose(self, name: str, role: Plan) -> tuple[list[Host], dict[str, str]]:
        """Return the nodes of a role once a node is lost, and which stand for which."""
        self.lost.add(name)
        made, moved = self.spares.replace(role)
        return [node.host for node in made.nodes], moved


def test_nothing_changes_without_a_loss() -> None:
    role = plan(*ALL[:2])
    assert Job(role).spares.replace(role) == (role, {})


def test_the_first_node_with_these_slots_is_taken() -> None:
    """It keeps its own user and port; the other nodes and the order of ranks stay."""
    role = plan(*ALL[:2])
    hosts, moved = Job(role).lose("h1", role)
    assert (hosts, moved) == ([ALL[3], ALL[1]], {"h1": "h4"})


def test_only_the_slots_of_the_lost_one_are_used() -> None:
    role = plan(Host("h1", (1,)))
    hosts, _ = Job(role, plan(ALL[1])).lose("h1", role)
    assert hosts == [ALL[3]._replace(slots=(1,))]


def test_workers_with_several_devices_need_all_of_them() -> None:
    role = plan(Host("h2", ("0+1",)))
    hosts, _ = Job(role, plan(ALL[0])).lose("h2", role)
    assert [(host.name, host.slots) for host in hosts] == [("h4", ("0+1",))]


def test_a_node_that_counts_its_devices_later() -> None:
    counted = [Host("h1", None), Host("h2", None)]
    role = plan(counted[0])
    assert Job(role, hosts=counted).lose("h1", role) == ([counted[1]], {"h1": "h2"})


def test_without_a_spare_the_lost_node_stays() -> None:
    role = plan(*ALL)
    assert Job(role).lose("h1", role) == ([*ALL], {})


def test_one_lost_node_alone_may_be_replaced() -> None:
    role = plan(*ALL[:2])
    job = Job(role)
    job.lost |= {"h1", "h2"}
    made, moved = job.spares.replace(role, "h2")
    assert ([node.host for node in made.nodes], moved) == ([ALL[0], ALL[3]], {"h2": "h4"})


def test_a_spare_is_used_once_and_a_lost_one_not_at_all() -> None:
    one, other = plan(ALL[0]), plan(ALL[1])
    job = Job(one, other)
    assert job.lose("h1", one)[1] == {"h1": "h4"}
    assert job.lose("h2", other)[1] == {}
    job = Job(one)
    job.lost.add("h2")
    assert job.lose("h1", one)[1] == {"h1": "h4"}


def test_roles_on_one_node_move_together() -> None:
    one, beside = plan(ALL[0]), plan(Host("h1", (1,)))
    job = Job(one, beside, plan(ALL[1]))
    assert job.lose("h1", one)[1] == {"h1": "h4"}
    assert job.lose("h1", beside)[1] == {"h1": "h4"}


def test_the_spare_may_be_lost_as_well() -> None:
    hosts = [Host(name, (0,)) for name in ("h1", "h2", "h3")]
    role = plan(hosts[0])
    job = Job(role, hosts=hosts)
    moved, _ = job.lose("h1", role)
    assert moved == [hosts[1]]
    assert job.lose("h2", plan(*moved)) == ([hosts[2]], {"h2": "h3"})


def test_all_roles_of_a_node_move_on_to_the_same_spare() -> None:
    """Whichever asks first: the one that has moved already, or the one that has not."""
    hosts = [Host(name, (0, 1)) for name in ("h1", "h2", "h3", "h4")]
    one, beside = plan(Host("h1", (0,))), plan(Host("h1", (1,)))
    for moved_first in (True, False):
        job = Job(one, beside, hosts=hosts)
        moved, _ = job.lose("h1", one)
        job.lost.add("h2")
        plans = [plan(*moved), beside] if moved_first else [beside, plan(*moved)]
        places = [job.spares.replace(role)[0].nodes[0].host.name for role in plans]
        assert places == ["h3", "h3"]


def test_a_spare_that_may_be_lost_is_the_last_choice() -> None:
    role = plan(ALL[0])
    hosts = [ALL[0], *(Host(name, (0, 1)) for name in ("h2", "h3"))]
    doubtful = {"h2"}
    spares = Spares(hosts, [role], lost="h1".__eq__, doubtful=doubtful.__contains__)
    doubtful.add("h3")
    assert spares.replace(role)[1] == {"h1": "h2"}
    spares = Spares(hosts, [role], lost="h1".__eq__, doubtful="h2".__eq__)
    assert spares.replace(role)[1] == {"h1": "h3"}


def test_it_is_known_whether_a_role_would_move() -> None:
    role = plan(*ALL[:2])
    job = Job(role)
    assert not job.spares.moves(role)
    job.lost.add("h1")
    assert job.spares.moves(role)
    assert job.spares.has("h4")
    job.spares.replace(role)
    assert not job.spares.has("h4")
    job.lost.add("h4")
    assert not job.spares.moves(role)
