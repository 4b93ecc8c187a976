"""Lists of hosts that change while a job runs: who is reached, let go, and told of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.control.messages import Done
from dsrun.launcher.features.elastic.runner_admission import CHANGED, PAUSES, Membership
from dsrun.launcher.head.run.run_node import NOT_REACHED
from dsrun.launcher.specs.host import Host

from ...support.cost import LINEAR, growth
from ...support.reconnection import Job, hosts
from ...support.run_nodes import plan_of, sent_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.features.elastic.runner_reconnector import Reconnector
    from dsrun.launcher.head.run.run_node import RunNode


def test_a_list_that_changes_all_the_time_has_nobody_tried_more_often() -> None:
    """Not even one whose attempt has not ended."""
    job = Job(9, "n1")
    job.take(["n1", "x0", "x1"])
    job.fail("x0")
    for number in range(10):
        job.take(["n1", "x0", "x1", f"y{number}"])
    assert job.names().count("x1") == 1
    assert job.names().count("x0") < 4


def test_who_is_off_the_list_is_not_tried_any_more() -> None:
    job = Job(2, "n1")
    job.dead = {"x0"}
    job.take(["n1", "x0"])
    job.take(["n1"])
    job.go(100)
    assert job.names() == ["x0"]
    job.take(["n1", "x0"])
    job.go(PAUSES.longest)
    assert len(job.names()) > 1


def test_changed_slots_of_a_host_in_the_job_are_told_once() -> None:
    job = Job(9, "n1")
    for slots in (1, 2, 2, 3, 1):
        job.roster.take([Host("n1", tuple(range(slots)))])
    assert job.said == [f"n1: {CHANGED}"] * 2


def test_a_list_of_thousands_is_taken_in_linear_time() -> None:
    job = Job(8, "n1")

    def take(size: int) -> None:
        other = Job(8, "n1")
        listed = [Host(name, (0,)) for name in ["n1", *hosts(size)]]
        other.roster.take(listed)
        other.roster.take(listed[::-1])

    assert growth(take, 625) < LINEAR
    listed = [Host(name, (0,)) for name in ["n1", *hosts(10_000)]]
    job.roster.take(listed)
    job.roster.take(listed[::-1])
    assert [peer.lost for peer in job.peers] == ["", NOT_REACHED]


# -- what becomes of each node --------------------------------------------------------------------


class Members:
    """Nodes n0, n1, ... of a job, and what is done for them.

    Attributes:
        did: what is asked of the rounds and of the reconnector, in order.
        needed: numbers of nodes that the rounds cannot do without.
    """

    def __init__(self, nodes: int = 3) -> None:
        self.did: list[tuple[str, str]] = []
        self.needed: set[int] = set()
        self.said: list[str] = []
        self.nodes: Sequence[RunNode] = sent_nodes(plan_of(nodes))
        returns: Reconnector = self  # type: ignore[assignment]
        self.membership = Membership(self.nodes, self.remove, returns, self.add, self.said.append)

    def add(self, host: Host) -> RunNode:
        raise AssertionError(host)

    def remove(self, number: int) -> bool:
        self.did.append(("retire", f"n{number}"))
        return number not in self.needed

    def advance(self) -> None:
        """Nothing to look at."""

    def cancel(self, node: RunNode) -> None:
        self.did.append(("cancel", node.name))

    def expect(self, node: RunNode) -> None:
        self.did.append(("expect", node.name))

    def start(self, node: RunNode) -> None:
        self.did.append(("start", node.name))

    def take(self, *names: str, slots: int = 2) -> list[tuple[str, str]]:
        """Take another list; what is done for it."""
        self.did.clear()
        self.membership.take([Host(name, tuple(range(slots))) for name in names])
        return list(self.did)


def test_who_is_lost_is_looked_for_unless_it_is_off_the_list() -> None:
    job = Members()
    job.membership.lost(job.nodes[1])
    assert job.did == [("expect", "n1")], "there is no list yet"
    job.take("n0", "n1")
    job.did.clear()
    job.membership.lost(job.nodes[1])
    job.membership.lost(job.nodes[2])
    assert job.did == [("expect", "n1")]


def test_who_is_off_the_list_is_let_go_the_last_first() -> None:
    job = Members()
    assert sorted(job.take("n0")[:2]) == [("cancel", "n1"), ("cancel", "n2")]
    assert job.did[2:] == [("retire", "n2"), ("retire", "n1")]


def test_who_cannot_be_spared_is_let_go_later_and_who_is_over_not_at_all() -> None:
    job = Members()
    job.needed = {1}
    job.nodes[2].lose("gone")
    assert job.take("n0")[2:] == [("retire", "n1")]
    job.needed = set()
    job.did.clear()
    job.membership.retire()
    assert job.did == [("retire", "n1")]


def test_who_has_been_let_go_and_is_on_the_list_again_is_reached_with_its_new_slots() -> None:
    job = Members()
    job.take("n0", "n1")
    job.nodes[2].finish(Done((), {}))
    job.membership.gone(job.nodes[2])
    assert job.did[-1] != ("start", "n2")
    assert job.take("n0", "n1", "n2", slots=5) == [("start", "n2")]
    node = job.nodes[2]
    assert node.lost == NOT_REACHED
    assert node.node.host.slots == node.connection.origin.host.slots == (0, 1, 2, 3, 4)


def test_who_is_on_the_list_again_before_it_has_left_is_reached_then() -> None:
    job = Members()
    job.take("n0", "n1")
    job.take("n0", "n1", "n2")
    job.nodes[2].finish(Done((), {}))
    job.membership.gone(job.nodes[2])
    assert job.did == [("start", "n2")]


def test_who_was_lost_and_is_on_the_list_again_is_looked_for() -> None:
    job = Members()
    job.take("n0", "n1")
    job.nodes[2].lose("no power")
    assert job.take("n0", "n1", "n2") == [("expect", "n2")]
    assert job.nodes[2].lost == "no power"


def test_where_there_is_no_list_nobody_comes_back_by_itself() -> None:
    job = Members()
    job.nodes[2].finish(Done((), {}))
    job.membership.gone(job.nodes[2])
    assert (job.did, job.membership.next()) == ([], None)
