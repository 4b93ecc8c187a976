"""The live view of jobs, as rows of a table: the measured values that fit. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...common.text import plain
from ...common.wording import counted
from ...control.job_messages import DeviceUsage, RankUsage, Usage
from ...resources.ranges import show_slots
from .command_read import age

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from .runner_job_status import JobStatus, NodeStatus, RankStatus

GIB = 1 << 30

NO_NVML = "its GPUs cannot be read: `pip install nvidia-ml-py` for the workers' Python"
"""The note on a host without NVML's Python module."""

STUCK = {"D": "in disk wait", "T": "paused", "t": "traced", "Z": "zombie"}
"""The kernel's letters for workers that do not run as usual."""


class JobView(NamedTuple):
    """The state of one job at a time.

    Attributes:
        used: the report of each host, by its name.
        cores: the number of cores that each rank has kept busy since the view before.
        problem: why there is nothing newer; "" if this is new.
    """

    status: JobStatus
    used: Mapping[str, Usage]
    cores: Mapping[int, float]
    problem: str = ""


class ViewLine(NamedTuple):
    """One row of the view.

    Attributes:
        name: a host, or within a host a rank.
        level: `host`, `rank`, or `note` for text alone.
        bad: whether it is lost, failed or stuck.
    """

    level: str
    name: str
    state: str = ""
    pid: str = ""
    cpu: str = ""
    memory: str = ""
    processes: str = ""
    device: str = ""
    slow: str = ""
    last: str = ""
    bad: bool = False


def usage_of(answer: Iterable[Any]) -> dict[str, Usage]:
    """Return the report of each host, from the rows (host, usage) of a runner's answer.

    If a host has a node launcher for each rank, their ranks are merged.
    """
    used: dict[str, Usage] = {}
    for host, fields in answer:
        ranks = tuple(RankUsage(*row) for row in fields["ranks"])
        devices = tuple(DeviceUsage(*row) for row in fields["devices"])
        known = used.get(host)
        more = Usage(**fields)._replace(ranks=ranks, devices=devices)
        used[host] = more if known is None else known._replace(ranks=(*known.ranks, *ranks))
    return used


def cores(before: Mapping[str, Usage], after: Mapping[str, Usage]) -> dict[int, float]:
    """Return the number of cores that each rank has kept busy between two reports of its host."""
    busy = {}
    for host, new in after.items():
        old = before.get(host)
        if old is None or new.clock <= old.clock:
            continue
        known = {(row.rank, row.pid): row.cpu for row in old.ranks}
        for row in new.ranks:
            if (row.rank, row.pid) in known:
                spent = row.cpu - known[row.rank, row.pid]
                busy[row.rank] = max(0.0, spent / (new.clock - old.clock))
    return busy


def title(view: JobView, now: float) -> str:
    """Return the line above a job; `now` is in seconds since 1970."""
    job = view.status
    size = counted(job.world_size, "rank") if job.world_size else "? ranks"
    parts = [
        job.job_id,
        f"{job.state}, round {job.round}" if job.round else job.state,
        f"{size} on {counted(len(job.nodes), 'node')}",
        f"for {age(now - job.since)}",
        *([f"{counted(job.restarts, 'restart')}"] if job.restarts else []),
        *([view.problem] if view.problem else []),
        job.program,
    ]
    return safe("  ".join(parts))


def lines(view: JobView, room: int) -> list[ViewLine]:
    """Return the rows of a job: hosts and ranks if they fit into the room, else hosts alone.

    If the hosts do not fit either, those with a problem come first, and the rest is counted.
    """
    by_host: dict[str, list[RankStatus]] = {}
    for rank in view.status.ranks:
        by_host.setdefault(rank.host, []).append(rank)
    nodes = list({node.host: node for node in view.status.nodes}.values())
    if len(nodes) + len(view.status.ranks) <= room:
        return [line for node in nodes for line in _node(view, node, by_host.get(node.host, []))]
    alone = [_host(view, node, by_host.get(node.host, []), alone=True) for node in nodes]
    if len(alone) <= room:
        return alone
    alone.sort(key=lambda line: not line.bad)
    shown = max(0, room - 1)
    return [*alone[:shown], ViewLine("note", f"+{counted(len(alone) - shown, 'host')}")]


def _node(view: JobView, node: NodeStatus, ranks: Sequence[RankStatus]) -> Iterator[ViewLine]:
    yield _host(view, node, ranks, alone=False)
    used = view.used.get(node.host)
    measured = {row.rank: row for row in used.ranks} if used else {}
    for rank in ranks:
        yield _rank(view, rank, measured.get(rank.rank), used)


def _host(view: JobView, node: NodeStatus, ranks: Sequence[RankStatus], *, alone: bool) -> ViewLine:
    """Return the row of a host; with `alone`, it stands for its ranks as well."""
    used = view.used.get(node.host)
    failed = [rank for rank in ranks if rank.state == "failed"]
    last = node.reason or (_summary(ranks, failed) if alone else "")
    return ViewLine(
        "host",
        safe(node.host),
        safe(node.state),
        cpu=f"{used.load:.1f}/{used.cores}" if used else "",
        memory=f"{_size(used.used)}/{_size(used.total)}" if used else "",
        processes=str(sum(row.processes for row in used.ranks)) if used else "",
        device=_devices(used.devices) if used else "",
        slow=safe(",".join(dict.fromkeys(rank.slow for rank in ranks if rank.slow)))
        if alone
        else "",
        last=safe(last or (NO_NVML if used and _is_unread(used.devices) else "")),
        bad=node.state == "lost" or bool(failed),
    )


def _summary(ranks: Sequence[RankStatus], failed: Sequence[RankStatus]) -> str:
    if not ranks:
        return ""
    names = show_slots([rank.rank for rank in ranks])
    words = f"rank{'s' if len(ranks) > 1 else ''} {names}"
    if failed:
        return f"{words}; failed: {show_slots([rank.rank for rank in failed])}"
    newest = next((rank for rank in ranks if rank.last), None)
    return words if newest is None else f"{words}; {newest.rank}| {newest.last}"


def _rank(view: JobView, rank: RankStatus, row: RankUsage | None, used: Usage | None) -> ViewLine:
    row = row if rank.state == "running" else None
    stuck = STUCK.get(row.state, "") if row else ""
    code = f" ({rank.code})" if rank.code else ""
    busy = view.cores.get(rank.rank) if row else None
    return ViewLine(
        "rank",
        str(rank.rank),
        safe(stuck or f"{rank.state}{code}"),
        pid=str(rank.pid) if rank.pid else "",
        cpu="" if busy is None else f"{100 * busy:.0f}%",
        memory=_size(row.memory) if row else "",
        processes=str(row.processes) if row else "",
        device=_device(rank.device, used.devices) if used else "",
        slow=safe(rank.slow),
        last=safe(rank.last),
        bad=rank.state == "failed" or bool(stuck),
    )


def _devices(devices: Sequence[DeviceUsage]) -> str:
    busy = [one.busy for one in devices if one.busy is not None]
    return f"{sum(busy) // len(busy)}% of {len(devices)}" if busy else ""


def _is_unread(devices: Sequence[DeviceUsage]) -> bool:
    """Return whether a node has no figures of its devices."""
    return bool(devices) and not any(one.total for one in devices)


def _device(name: str, devices: Iterable[DeviceUsage]) -> str:
    """Return the use of a rank's device, found by number or UUID."""
    found = next((one for one in devices if name and name in {str(one.number), one.uuid}), None)
    if found is None or not found.total:
        return ""
    busy = "?" if found.busy is None else f"{found.busy}%"
    return f"{busy} {_size(found.used)}/{_size(found.total)}"


def _size(count: int) -> str:
    if count < GIB:
        return f"{count >> 20}M"
    return f"{count / GIB:.1f}G" if count < 100 * GIB else f"{count / GIB:.0f}G"


def safe(text: str) -> str:
    """Return text of somebody else's as one line that is safe to print."""
    return plain(text).replace("\n", " ").replace("\t", " ")
