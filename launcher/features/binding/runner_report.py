"""The bindings of all workers, as one table."""

from __future__ import annotations

from ...control.messages import NodeBindings, WorkerBinding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypedDict

    from ...head.report.json_types import Binding
    from ...head.report.report import JobReport

    class BindingsJson(TypedDict):
        """The section of the report.

        Attributes:
            bindings: the binding of each worker; only with --report_bindings.
        """

        bindings: list[Binding]


HEAD = ("host", "rank", "device", "PCI address", "its node", "cpus", "memory", "NIC")
NOTHING = "-"
TITLE = "bindings, as reported by each node's kernel:"


def table(seen: Iterable[tuple[str, NodeBindings]], title: str = TITLE) -> str:
    """Return a table with a line for each worker, host by host."""
    rows = [HEAD, *(_row(host, bound, one) for host, bound in seen for one in bound.workers)]
    used = [at for at in range(len(HEAD)) if at < 3 or any(row[at] != NOTHING for row in rows[1:])]
    widths = {at: max(len(row[at]) for row in rows) for at in used}
    lines = ("  ".join(f"{row[at]:<{widths[at]}}" for at in used).rstrip() for row in rows)
    return "\n".join([title, *(f"  {line}" for line in lines)])


def show(told: Sequence[tuple[str, NodeBindings | None]], log: Callable[[str], None]) -> None:
    """Print the table once every one of these hosts has reported its bindings."""
    known = [(name, bound) for name, bound in told if bound]
    if len(known) == len(told):
        log(table(known))


def fields(report: JobReport) -> BindingsJson:
    """Return the bindings for --report_file: an object for each worker."""
    workers = ((host, bound, one) for host, bound in report.bound for one in bound.workers)
    return {"bindings": [_binding(*one) for one in workers]}


def _binding(host: str, bound: NodeBindings, one: WorkerBinding) -> Binding:
    return {
        "host": host,
        "accelerator": bound.accelerator,
        "rank": one.rank,
        "pid": one.pid,
        "device": one.device,
        "address": one.address,
        "node": one.node,
        "cpus": one.cpus,
        "memory": one.memory,
        "nic": one.nic,
    }


def _row(host: str, bound: NodeBindings, one: WorkerBinding) -> Sequence[str]:
    device = f"{bound.accelerator} {one.device}" if one.device else bound.accelerator
    node = NOTHING if one.node is None else str(one.node)
    cells = (host, str(one.rank), device, one.address, node, one.cpus, one.memory, one.nic)
    return [text or NOTHING for text in cells]
