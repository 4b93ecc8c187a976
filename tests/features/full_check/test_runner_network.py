"""The step `network`, whose programs answer from a made-up network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.full_check.messages import Link, Listening
from dsrun.launcher.features.full_check.runner_network import MOST, TRIES, script
from dsrun.launcher.features.full_check.runner_pairs import rounds
from dsrun.launcher.features.full_check.runner_steps import StepFailed

from ...support.fake_programs import play
from ...support.links import HEALTHY, Links, among, nodes, of_node, rated

if TYPE_CHECKING:
    from dsrun.launcher.features.full_check.runner_steps import StepRequest, StepResult

SLOW = rated(out=1e7)
DEAD = StepFailed("the program exited with code 1")


class Network:
    """Nodes that answer with these measurements.

    Attributes:
        asks: the pairs of each request to measure.
    """

    def __init__(self, count: int, links: Links | None = None) -> None:
        self.names = nodes(count)
        self.links = links or {}
        self.dead: set[str] = set()
        self.asks: list[list[frozenset[str]]] = []
        self._tokens: dict[str, str] = {}
        self._last: StepRequest | None = None

    def check(self) -> StepResult:
        """Run the step."""
        return play(script(self.names), self._answer)

    def _answer(self, ask: StepRequest, name: str, request: Any) -> Any:
        if name in self.dead:
            return DEAD
        if ask.do == "listen":
            assert name not in request.peers or len(self.names) == 1
            self._tokens[request.token] = name
            return Listening(7, (f"address of {name}",))
        other = self._tokens[request.token]
        assert request.addresses == (f"address of {other}",)
        if ask is not self._last:
            self._last = ask
            self.asks.append([])
        self.asks[-1].append(frozenset((name, other)))
        return self.measured(name, other)

    def measured(self, one: str, other: str) -> Any:
        """The measurement of a link; a network that changes has another."""
        return self.links.get((one, other), self.links.get((other, one), HEALTHY))


class Recovering(Network):
    """A network that is healthy when a link is measured alone.

    Attributes:
        later: how other links are then.
    """

    def __init__(self, count: int, links: Links) -> None:
        super().__init__(count, links)
        self.later: Links = {}

    def measured(self, one: str, other: str) -> Any:
        """Tell whether the link is measured for the first time."""
        if sum(frozenset((one, other)) in pairs for pairs in self.asks) > 1:
            self.links = self.later
        return super().measured(one, other)


def bad_node(count: int, node: str, link: Link | StepFailed = SLOW) -> Links:
    return dict.fromkeys(of_node(node, among(nodes(count))), link)


def test_healthy_nodes_are_measured_once_side_by_side() -> None:
    network = Network(4)
    result = network.check()
    assert (result.faults, result.notes) == ((), ())
    turns = [[frozenset(pair) for pair in pairs] for pairs in rounds(network.names)]
    assert network.asks == turns
    assert len(result.measured["links"]) == 6
    assert result.measured["links"][0]["nodes"] == ["n1", "n4"]
    assert result.measured["links"][0]["best_s"] == HEALTHY.best_s
    assert result.measured["links_alone"] == []


def test_a_bad_node_is_measured_again_alone_and_named() -> None:
    network = Network(8, bad_node(8, "n3"))
    (found,) = network.check().faults
    assert (found.code, found.nodes) == ("node_bandwidth", ("n3",))
    again = network.asks[7:]
    assert [len(pairs) for pairs in again] == [1] * 6
    assert {name for (pair,) in again for name in pair} == {"n1", "n2", "n3", "n4"}


def test_a_bad_link_is_named() -> None:
    (found,) = Network(4, {("n1", "n3"): SLOW}).check().faults
    assert (found.code, found.nodes) == ("link_bandwidth", ("n1", "n3"))


def test_what_is_good_when_measured_alone_is_not_named() -> None:
    result = Recovering(4, bad_node(4, "n2")).check()
    assert result.faults == ()
    assert len(result.measured["links_alone"]) == 6


def test_a_node_that_looked_bad_for_another_reason_does_not_hide_a_link() -> None:
    """At first the node's latency was bad, too, but only by chance."""
    late = HEALTHY._replace(best_s=5e-3)
    lossy: Links = {("n1", "n3"): late._replace(resent=900)}
    network = Recovering(4, {**bad_node(4, "n3", late), **lossy})
    network.later = lossy
    (found,) = network.check().faults
    assert (found.code, found.nodes) == ("link_loss", ("n1", "n3"))


def test_a_link_is_judged_by_the_best_of_both_measurements() -> None:
    """The first time one node is slow by chance, the second time another one."""
    first: Links = {("n1", "n3"): SLOW, ("n2", "n4"): rated(back=3e8)}
    network = Recovering(4, first)
    network.later = {("n1", "n3"): SLOW, ("n1", "n2"): rated(out=1e6)}
    (found,) = network.check().faults
    assert found.nodes == ("n1", "n3")
    assert found.text == "n1 sends 10 MB/s and receives 900 MB/s, elsewhere 900 MB/s"


@pytest.mark.parametrize(("tries", "named"), [(TRIES, 0), (TRIES + 1, 1)])
def test_what_is_bad_by_little_is_measured_several_times(tries: int, named: int) -> None:
    """It is good in the last try, or would be in the one after."""

    class Slow(Network):
        def measured(self, one: str, other: str) -> Any:
            before = sum(frozenset((one, other)) in pairs for pairs in self.asks) - 1
            return HEALTHY if before == tries else super().measured(one, other)

    network = Slow(4, {("n1", "n3"): rated(out=4e8)})
    result = network.check()
    assert len(result.faults) == named
    assert len(network.asks) == 3 + 6 * TRIES
    assert len(result.measured["links_alone"]) == 6


def test_no_link_of_a_node_that_is_named_is_named_beside_it() -> None:
    links = bad_node(4, "n3")
    links["n1", "n3"] = SLOW._replace(resent=900)
    (found,) = Network(4, links).check().faults
    assert found.nodes == ("n3",)


def test_what_is_bad_in_another_way_when_measured_again_is_not_named() -> None:
    network = Recovering(4, {("n1", "n3"): SLOW})
    network.later = {("n1", "n3"): HEALTHY._replace(best_s=5e-3)}
    assert network.check().faults == ()


def test_a_link_that_failed_and_loses_packets_when_measured_alone_is_named() -> None:
    """Under load nothing came through for seconds."""
    lossy = HEALTHY._replace(resent=300)
    network = Recovering(4, {("n1", "n3"): StepFailed("nothing arrived for 5 s")})
    network.later = {("n1", "n3"): lossy}
    assert [(one.code, one.nodes) for one in network.check().faults] == [
        ("link_loss", ("n1", "n3"))
    ]


@pytest.mark.parametrize("count", [2, 3])
def test_a_node_that_is_not_there_is_noted_and_the_others_are_measured(count: int) -> None:
    network = Network(count)
    network.dead = {"n2"}
    result = network.check()
    assert result.notes == (f"n2 was not measured: {DEAD.why}",)
    assert len(result.measured["links"]) == (count - 1) * (count - 2) // 2


def test_a_node_that_nobody_reaches_is_named() -> None:
    result = Network(4, bad_node(4, "n4", StepFailed("timed out"))).check()
    (found,) = result.faults
    assert (found.code, found.nodes) == ("node_reach", ("n4",))
    assert {"nodes": ["n1", "n4"], "failed": "timed out"} in result.measured["links"]


def test_suspects_are_compared_with_nodes_that_are_none() -> None:
    network = Network(8, bad_node(8, "n2") | bad_node(8, "n1"))
    found = network.check().faults
    assert [one.nodes for one in found] == [("n1",), ("n2",)]
    compared = {name for pairs in network.asks[7:] for pair in pairs for name in pair}
    assert compared == {"n1", "n2", "n3", "n4", "n5"}


def test_only_so_many_suspects_are_measured_again() -> None:
    links: Links = {}
    for at in range(1, MOST + 2):
        links |= bad_node(40, f"n{at}")
    result = Network(40, links).check()
    assert len(result.faults) == MOST
    (note,) = result.notes
    assert note.startswith(f"{MOST + 1} nodes or links looked bad")


@pytest.mark.parametrize("count", [0, 1])
def test_without_another_node_there_is_nothing_to_measure(count: int) -> None:
    result = Network(count).check()
    assert result.measured == {"links": [], "links_alone": []}
