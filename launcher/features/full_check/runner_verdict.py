"""From the measurements of links to the nodes and links that are worse than the others. Pure.

A node is bad if even its good links are: the lower quartile of them counts, by badness. A link is
bad if both its ends have good ones. What counts as bad is measured against the others (median and
median absolute deviation of the logarithms), and has to be worse by a factor and by an amount. So
nothing is named for being slow together, such as the links between two racks.
"""

from __future__ import annotations

from math import log

from ...common.records import NamedTuple
from .messages import Link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TypeAlias

    from .runner_pairs import Pair
    from .runner_steps import MeasuredFault, StepFailed

    Measured: TypeAlias = Mapping[Pair, Link | StepFailed]
    Nodes: TypeAlias = tuple[str, ...]

DEVIATIONS = 4 * 1.4826
"""Median absolute deviations from the others: 4 standard deviations of a normal distribution."""

MINORITY = 3
"""At most one link in this number is bad by comparison; if there are more, they are compared again
with each other."""

UNREACHED = 1e9


class LinkMetric(NamedTuple):
    """A way in which a link may be bad, with its badness, which grows as the link gets worse.

    Attributes:
        badness: returns the badness of a measurement, positive; None if it was not measured.
        factor: the least ratio of a bad link's badness to the other links'.
        amount: the least difference of a bad link's badness from the other links'.
        anyway: the badness from which a link is bad, whatever the other links are.
        excused: returns the badness of a possibly bad link without the part for which the network
            is not to blame; None for `badness`, which the other links always have.
    """

    name: str
    badness: Callable[[Any], float | None]
    factor: float
    amount: float
    anyway: float = UNREACHED * 2
    excused: Callable[[Any], float | None] | None = None


def _reach(link: Link | StepFailed) -> float | None:
    return 1.0 if isinstance(link, Link) else UNREACHED


def _loss(link: Link | StepFailed) -> float | None:
    return max(NO_LOSS, *loss(link)) if isinstance(link, Link) else None


def _latency(link: Link | StepFailed) -> float | None:
    return max(1e-6, link.best_s) if isinstance(link, Link) else None


def _bandwidth(link: Link | StepFailed) -> float | None:
    return 1 / max(1.0, min(link.out, link.back)) if isinstance(link, Link) else None


def _free_bandwidth(link: Link | StepFailed) -> float | None:
    """Return the badness without the time in which an end had no core."""
    if not isinstance(link, Link):
        return None
    return 1 / max(1.0, min(link.out_free, link.back_free))


NO_LOSS = 1e-3
"""Less is no loss: a healthy network drops a few packets of a stream at full speed."""

FEW = 5
"""Retransmitted segments that say nothing."""

REACH = "reach"

METRICS = (
    LinkMetric(REACH, _reach, 2, 0, UNREACHED),
    LinkMetric("loss", _loss, 5, 0.004, 0.02),
    LinkMetric("latency", _latency, 3, 0.0003),
    LinkMetric("bandwidth", _bandwidth, 2, 0, excused=_free_bandwidth),
)
"""The most serious first. docs/full_check.md has the values."""

SURE = tuple(one._replace(factor=one.factor * 2, amount=one.amount * 2) for one in METRICS)
"""A value that is bad by these factors needs no further measurement."""


def loss(link: Link) -> tuple[float, float]:
    """Return the share of segments that were sent again, here and at the other end."""
    return _share(link.resent, link.sent), _share(link.back_resent, link.back_sent)


def _share(resent: int, sent: int) -> float:
    return resent / max(1, sent) if resent > FEW else 0.0


def suspects(
    measured: Mapping[Pair, Any], metrics: Sequence[LinkMetric] = METRICS
) -> dict[Nodes, list[str]]:
    """Return the nodes, and the links by their ends, that are bad, with the metrics in which."""
    found: dict[Nodes, list[str]] = {}
    for metric in metrics:
        values = _values(metric.badness, measured)
        excused = _values(metric.excused or metric.badness, measured)
        nodes = [(node,) for node in _bad_nodes(metric, values, excused)]
        for one in (*nodes, *_bad_links(metric, values, excused)):
            found.setdefault(one, []).append(metric.name)
    return found


def _values(
    badness: Callable[[Any], float | None], measured: Mapping[Pair, Any]
) -> dict[Pair, float]:
    found = {pair: badness(link) for pair, link in measured.items()}
    return {pair: value for pair, value in found.items() if value is not None}


def essential(faults: Sequence[MeasuredFault]) -> list[MeasuredFault]:
    """Leave out the links of nodes that are named themselves."""
    bad = {one.nodes[0] for one in faults if len(one.nodes) == 1}
    return [one for one in faults if len(one.nodes) == 1 or not bad & set(one.nodes)]


def _bad_nodes(
    metric: LinkMetric, values: Mapping[Pair, float], excused: Mapping[Pair, float]
) -> list[str]:
    each = _usual(values)
    if not each:
        return []
    usual = median(each.values())
    spread = _spread(each.values())
    return [
        node
        for node, value in _usual(excused).items()
        if value >= metric.anyway or _is_worse(metric, value, usual, spread)
    ]


def _bad_links(
    metric: LinkMetric, values: Mapping[Pair, float], excused: Mapping[Pair, float]
) -> list[Pair]:
    """Return the links that are worse than the better ones of both their ends.

    This omits the links of a bad node, unless one is worse than that node.
    """
    usual = _usual(values)
    spread = _spread(values.values()) if values else 0.0
    least = 0.0
    while True:
        bad = []
        for pair, value in excused.items():
            other = max(least, *(usual.get(node, 0.0) for node in pair))
            always = value >= metric.anyway > other
            if always or (other and _is_worse(metric, value, other, spread)):
                bad.append(pair)
        some = [excused[pair] for pair in bad if excused[pair] < metric.anyway]
        if len(some) * MINORITY <= len(values):
            return bad
        # The network is built so. Only what is much worse than that stands out.
        least = median(some)


def _usual(values: Mapping[Pair, float]) -> dict[str, float]:
    """Return the badness of the better links of each node that has several."""
    return {node: _quartile(of) for node, of in _by_node(values).items() if len(of) > 1}


def _is_worse(metric: LinkMetric, value: float, usual: float, spread: float) -> bool:
    worse = value >= usual * metric.factor and value - usual >= metric.amount
    return worse and log(value / usual) > DEVIATIONS * spread


def _by_node(values: Mapping[Pair, float]) -> dict[str, list[float]]:
    each: dict[str, list[float]] = {}
    for pair, value in values.items():
        for node in pair:
            each.setdefault(node, []).append(value)
    return each


def median(values: Iterable[float]) -> float:
    """Return the middle value, the lower one of two."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


def _quartile(values: Sequence[float]) -> float:
    return sorted(values)[(len(values) - 1) // 4]


def _spread(values: Iterable[float]) -> float:
    """Return the median absolute deviation of the logarithms."""
    logs = [log(value) for value in values]
    middle = median(logs)
    return median(abs(one - middle) for one in logs)
