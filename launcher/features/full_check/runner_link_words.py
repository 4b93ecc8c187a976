"""The words about a node or a link that is worse than the others. Pure."""

from __future__ import annotations

from .messages import Link
from .runner_matrix import number
from .runner_steps import MeasuredFault, StepFailed
from .runner_verdict import loss, median

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .runner_verdict import Measured, Nodes


def fault(nodes: Nodes, metrics: Sequence[str], measured: Measured) -> MeasuredFault:
    """Return the fault of one node, or of the link between two.

    Args:
        nodes: the node, or the ends of the link.
        metrics: the bad metrics, the most serious first.
        measured: its links, and others to compare them with.
    """
    here = {pair: link for pair, link in measured.items() if set(nodes) <= set(pair)}
    others = {pair: link for pair, link in measured.items() if pair not in here}
    kind = "node" if len(nodes) == 1 else "link"
    said = "; ".join(_SAY[metric](nodes[0], here, others) for metric in metrics)
    return MeasuredFault(f"{kind}_{metrics[0]}", nodes, said, ADVICE[metrics[0]])


def _reach(_one: str, here: Measured, _others: Measured) -> str:
    failed = {pair: link.why for pair, link in here.items() if isinstance(link, StepFailed)}
    return ", ".join(f"{one} cannot reach {other} ({why})" for (one, other), why in failed.items())


def _loss(_one: str, here: Measured, others: Measured) -> str:
    text = f"{_percent(here)} of the packets are retransmitted"
    return text + _elsewhere(_percent, others)


def _latency(_one: str, here: Measured, others: Measured) -> str:
    return f"a round trip takes {_ms(here)}" + _elsewhere(_ms, others)


def _bandwidth(one: str, here: Measured, others: Measured) -> str:
    """Separate the directions: a link is often slow in only one of them."""
    out, back = [], []
    for (caller, _), link in here.items():
        if isinstance(link, Link):
            rates = (link.out, link.back)
            sent, received = rates if caller == one else reversed(rates)
            out.append(sent)
            back.append(received)
    text = f"{one} sends {_rate(out)} and receives {_rate(back)}"
    return text + _elsewhere(lambda some: _rate(_rates(some)), others)


_SAY: dict[str, Callable[[str, Measured, Measured], str]] = {
    "reach": _reach,
    "loss": _loss,
    "latency": _latency,
    "bandwidth": _bandwidth,
}
"""The words about each metric of `runner_verdict`, by name."""

ADVICE = {
    "reach": "check for a firewall, route or cable that keeps the nodes apart",
    "loss": "check the cable, rate limits and the interface's errors (ip -s link)",
    "latency": "check the route between the nodes, and the other traffic on it",
    "bandwidth": "check the interface's speed (ethtool), the cable and the switch's limits",
}
"""Advice for each metric."""


def _elsewhere(show: Callable[[Measured], str], others: Measured) -> str:
    return f", elsewhere {show(others)}" if _links(others) else ""


def _links(measured: Measured) -> list[Link]:
    return [link for link in measured.values() if isinstance(link, Link)]


def _rates(measured: Measured) -> list[float]:
    return [rate for link in _links(measured) for rate in (link.out, link.back)]


def _rate(rates: Sequence[float]) -> str:
    return f"{number(median(rates) / 1e6)} MB/s"


def _ms(measured: Measured) -> str:
    return f"{number(median(link.best_s for link in _links(measured)) * 1000)} ms"


def _percent(measured: Measured) -> str:
    return f"{median(max(loss(link)) for link in _links(measured)) * 100:.2g} %"
