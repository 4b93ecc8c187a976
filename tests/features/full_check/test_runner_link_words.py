"""What is said about bad nodes and links."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.full_check.runner_link_words import fault
from dsrun.launcher.features.full_check.runner_steps import StepFailed
from dsrun.launcher.features.full_check.runner_verdict import METRICS

from ...support.links import among, nodes, of_node, rated

SLOW = rated(out=1.25e7, back=8e8)._replace(best_s=0.02, resent=640)
LINKS = {**among(nodes(4)), ("n1", "n3"): SLOW}


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ("bandwidth", "n1 sends 12.5 MB/s and receives 800 MB/s, elsewhere 900 MB/s"),
        ("latency", "a round trip takes 20 ms, elsewhere 0.06 ms"),
        ("loss", "3.2 % of the packets are retransmitted, elsewhere 0 %"),
    ],
)
def test_a_link_is_compared_with_the_others(metric: str, text: str) -> None:
    found = fault(("n1", "n3"), [metric], LINKS)
    assert (found.code, found.nodes, found.text) == (f"link_{metric}", ("n1", "n3"), text)
    assert found.advice


def test_the_directions_of_a_node_are_those_that_it_sees() -> None:
    """Whichever end has measured: n1 called n3 and n4, but n3 was called."""
    back = rated(out=9e8, back=1e7)
    links = {**among(nodes(4)), ("n1", "n3"): back, ("n2", "n3"): back}
    links["n3", "n4"] = rated(out=1e7, back=9e8)
    found = fault(("n3",), ["bandwidth"], links)
    assert found.text == "n3 sends 10 MB/s and receives 900 MB/s, elsewhere 900 MB/s"
    assert found.code == "node_bandwidth"


def test_all_metrics_are_said_and_the_first_is_the_fault() -> None:
    found = fault(("n1", "n3"), ["loss", "latency"], LINKS)
    assert found.code == "link_loss"
    assert "retransmitted" in found.text
    assert "; a round trip" in found.text


def test_each_link_that_does_not_work_is_named_with_the_reason() -> None:
    links = among(nodes(3))
    links |= dict.fromkeys(of_node("n2", links), StepFailed("10.0.0.2: timed out"))
    text = fault(("n2",), ["reach"], links).text
    assert text == (
        "n1 cannot reach n2 (10.0.0.2: timed out), n2 cannot reach n3 (10.0.0.2: timed out)"
    )


@pytest.mark.parametrize("metric", [metric.name for metric in METRICS])
def test_of_two_nodes_nothing_is_compared(metric: str) -> None:
    links = {("n1", "n2"): StepFailed("no") if metric == "reach" else SLOW}
    assert "elsewhere" not in fault(("n1", "n2"), [metric], links).text
