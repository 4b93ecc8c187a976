"""Which nodes and links are named, from made-up measurements."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.full_check.messages import Link
from dsrun.launcher.features.full_check.runner_steps import StepFailed
from dsrun.launcher.features.full_check.runner_verdict import loss, median, suspects

from ...support.links import HEALTHY, Links, among, nodes, noisy, of_node, rated

BAD: dict[str, Link | StepFailed] = {
    "reach": StepFailed("timed out"),
    "loss": HEALTHY._replace(resent=300),
    "latency": HEALTHY._replace(best_s=5e-3),
    "bandwidth": rated(back=1e7),
}
"""A link that is bad in each way."""

METRICS = pytest.mark.parametrize("metric", BAD)
SIZES = pytest.mark.parametrize("count", [3, 4, 5, 8, 16])


def bad(links: Links, metric: str, *pairs: tuple[str, str]) -> Links:
    return {**links, **dict.fromkeys(pairs, BAD[metric])}


@SIZES
def test_healthy_nodes_are_not_named(count: int) -> None:
    for seed in range(50):
        assert suspects(noisy(among(nodes(count)), seed)) == {}


@METRICS
@SIZES
def test_a_bad_node_is_named_and_none_of_its_links(metric: str, count: int) -> None:
    links = noisy(among(nodes(count)), 1)
    assert suspects(bad(links, metric, *of_node("n2", links))) == {("n2",): [metric]}


@METRICS
@SIZES
def test_a_bad_link_is_named_and_neither_of_its_ends(metric: str, count: int) -> None:
    links = bad(noisy(among(nodes(count)), 2), metric, ("n1", "n3"))
    assert suspects(links) == {("n1", "n3"): [metric]}


@METRICS
@pytest.mark.parametrize("count", [4, 5, 8])
def test_two_bad_nodes_are_named(metric: str, count: int) -> None:
    links = noisy(among(nodes(count)), 3)
    pairs = {*of_node("n1", links), *of_node("n4", links)}
    assert suspects(bad(links, metric, *pairs)) == {("n1",): [metric], ("n4",): [metric]}


@METRICS
def test_a_bad_node_and_a_bad_link_elsewhere_are_named(metric: str) -> None:
    links = noisy(among(nodes(6)), 4)
    found = suspects(bad(links, metric, *of_node("n1", links), ("n2", "n5")))
    assert found == {("n1",): [metric], ("n2", "n5"): [metric]}


@pytest.mark.parametrize("metric", ["latency", "bandwidth"])
def test_of_two_nodes_nothing_can_be_compared(metric: str) -> None:
    assert suspects(bad(among(nodes(2)), metric, ("n1", "n2"))) == {}


@pytest.mark.parametrize("metric", ["reach", "loss"])
def test_a_link_of_two_nodes_may_be_bad_by_itself(metric: str) -> None:
    much = {"loss": HEALTHY._replace(resent=600)}
    links = {("n1", "n2"): much.get(metric, BAD[metric])}
    assert suspects(links) == {("n1", "n2"): [metric]}


@pytest.mark.parametrize("pairs", [[("n1", "n3")], of_node("n3", among(nodes(4)))])
def test_a_rate_is_excused_by_the_time_without_a_core(pairs: list[tuple[str, str]]) -> None:
    busy = HEALTHY._replace(out=3e8, out_free=7e8, back=2e8, back_free=6e8)
    assert suspects({**among(nodes(4)), **dict.fromkeys(pairs, busy)}) == {}


def test_an_excused_rate_is_none_for_others_to_reach() -> None:
    """Those that had no core all the time do not make others slow."""
    links = noisy(among(nodes(4)), 1)
    links["n1", "n2"] = HEALTHY._replace(out_free=2e10, back_free=2e10)
    assert suspects(links) == {}


def test_a_link_that_is_worse_than_the_bad_node_at_its_end_is_named_too() -> None:
    links = among(nodes(4))
    links |= dict.fromkeys(of_node("n3", links), rated(out=4e8))
    found = suspects({**links, ("n2", "n3"): rated(out=5e6)})
    assert found == {("n3",): ["bandwidth"], ("n2", "n3"): ["bandwidth"]}


def test_all_nodes_may_be_bad_by_themselves() -> None:
    links = among(nodes(3), HEALTHY._replace(resent=600))
    assert suspects(links) == {("n1",): ["loss"], ("n2",): ["loss"], ("n3",): ["loss"]}


def test_racks_are_no_fault() -> None:
    """Two groups of nodes, between which everything takes longer."""
    links = among(nodes(8))
    far = rated(out=2e8, back=2e8)._replace(best_s=1e-3)
    across = [pair for pair in links if len({int(name[1:]) > 4 for name in pair}) == 2]
    assert suspects({**links, **dict.fromkeys(across, far)}) == {}


def test_racks_do_not_hide_a_link_that_is_much_worse() -> None:
    links = among(nodes(4))
    far, broken = rated(out=3e8), rated(out=5e6)
    across = [pair for pair in links if len({name in {"n1", "n2"} for name in pair}) == 2]
    links |= dict.fromkeys(across, far)
    assert suspects({**links, ("n1", "n3"): broken}) == {("n1", "n3"): ["bandwidth"]}


def test_a_node_that_is_bad_in_one_metric_does_not_hide_its_link_in_another() -> None:
    links = among(nodes(4))
    links |= dict.fromkeys(of_node("n1", links), BAD["latency"])
    links["n1", "n3"] = HEALTHY._replace(best_s=5e-3, resent=900)
    assert suspects(links) == {("n1", "n3"): ["loss"], ("n1",): ["latency"]}


def test_a_node_is_named_in_all_metrics_in_which_it_is_bad() -> None:
    links = among(nodes(4))
    slow = rated(out=1e6)._replace(best_s=2e-2, resent=900)
    links |= dict.fromkeys(of_node("n3", links), slow)
    assert suspects(links) == {("n3",): ["loss", "latency", "bandwidth"]}


@pytest.mark.parametrize(
    "link",
    [
        HEALTHY._replace(best_s=3.5e-4),  # six times, but less than 0.3 ms
        rated(out=5e8),  # less than by half
        HEALTHY._replace(resent=60),  # 0.3 %
        HEALTHY._replace(sent=100, resent=5),  # too few to say anything
    ],
)
def test_small_differences_are_none(link: Link) -> None:
    assert suspects({**among(nodes(4)), ("n1", "n2"): link}) == {}


def test_where_all_differ_much_a_difference_says_less() -> None:
    rates = [1e9, 7e8, 4e8, 2.5e8, 1.8e8]
    links = among(nodes(5))
    spread: Links = {
        pair: rated(out=rates[at % 5], back=rates[at % 5]) for at, pair in enumerate(links)
    }
    assert suspects(spread) == {}


def test_loss_is_the_share_that_was_sent_again_in_each_direction() -> None:
    assert loss(HEALTHY._replace(resent=200, back_resent=3)) == (0.01, 0.0)
    assert loss(HEALTHY._replace(sent=0, back_sent=1000, back_resent=100)) == (0.0, 0.1)


def test_the_median_of_two_is_the_lower_one() -> None:
    assert [median([3.0, 1.0]), median([5.0, 1.0, 2.0])] == [1.0, 2.0]
