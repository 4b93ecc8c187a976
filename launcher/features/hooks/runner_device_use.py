"""The use of the nodes' devices, as metrics: the nodes are asked again for each text."""

from __future__ import annotations

from ...control.job_messages import USAGE, UsageAsk
from .runner_exposition import Metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...control.job_messages import DeviceUsage, Usage
    from ...head.fleet.node_connection import NodeConnection
    from ...head.fleet.node_queries import NodeQueries, NodeQuestion
    from ...head.run.run_node import RunNode

ASKED = {"cuda"}
"""Accelerators whose nodes can tell how their devices are used."""


class DeviceUse:
    """The nodes' last report on their devices; no metric before that."""

    def __init__(self, queries: NodeQueries) -> None:
        self._queries = queries
        self._question: NodeQuestion | None = None
        self._used: dict[str, list[DeviceUsage]] = {}

    def ask(self, nodes: Iterable[RunNode]) -> None:
        """Ask the nodes that have such devices, unless answers are outstanding."""
        if self._question is not None and not self._question.over:
            return
        having = {
            node.connection.name: node.connection  # once, though several roles may use it
            for node in nodes
            if not node.over and node.hello is not None and node.hello.accelerator in ASKED
        }
        if having:
            self._question = self._queries.ask(having.values(), USAGE, UsageAsk(), self._answered)

    def _answered(self, used: dict[NodeConnection, Usage]) -> None:
        known = {node.name: [row for row in one.devices if row.total] for node, one in used.items()}
        self._used = {name: rows for name, rows in known.items() if rows}

    def now(self) -> Iterator[Metric]:
        """Yield the metrics of the latest answers."""
        rows = [(_labels(host, one), one) for host, some in self._used.items() for one in some]
        if rows:
            busy = tuple((labels, one.busy / 100) for labels, one in rows if one.busy is not None)
            yield Metric("device_busy_ratio", "Share of recent time that it was busy.", busy)
            used = tuple((labels, float(one.used)) for labels, one in rows)
            yield Metric("device_memory_used_bytes", "Device memory in use by all processes.", used)
            total = tuple((labels, float(one.total)) for labels, one in rows)
            yield Metric("device_memory_bytes", "Size of the device's memory.", total)


def _labels(host: str, one: DeviceUsage) -> Mapping[str, str]:
    return {"host": host, "device": str(one.number), "uuid": one.uuid}
