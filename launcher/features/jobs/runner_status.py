"""The status of a run: the place and state of its workers, and its last output."""

from __future__ import annotations

from ... import __version__
from ...common import system
from ...head.report.report import of_kind
from ...specs.program import command_lines
from .runner_job_status import JobStatus, NodeStatus, RankStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...head.run.run_node import RunNode
    from ...head.run.run_view import RunView
    from ...head.run.running_ranks import RunningWorker
    from .runner_job_status import RankState
    from .runner_socket import RunHistory


def status(run: RunView, seen: RunHistory, *, ranks: bool) -> JobStatus:
    """Return the current status of a run, with its ranks if `ranks` is set."""
    spec, tail, now = run.spec, seen.tail, system.time() - seen.clock()
    running = run.workers.running
    hosts = {one.host for one in running}
    return JobStatus(
        version=__version__,
        job_id=spec.job_id,
        pid=system.getpid(),
        state=run.phase.name.lower(),
        since=now + run.record.began,
        program=command_lines({"": run.plan.program}),
        workdir=spec.workdir,
        launcher=run.plan.launcher,
        elastic=spec.elastic is not None or run.plan.rendezvous is not None,
        round=seen.round,
        restarts=seen.restarts,
        world_size=run.world_size,
        running=len(running),
        nodes=tuple(_node(run, node, hosts) for node in run.nodes),
        ranks=tuple(_ranks(run, seen, {one.rank: one for one in running}, now)) if ranks else (),
        last=tail.last_line(tail.newest),
        last_rank=tail.newest,
    )


def _node(run: RunView, node: RunNode, hosts: set[str]) -> NodeStatus:
    if node.reason:
        return NodeStatus(node.name, "lost", node.reason)
    if node.done:
        return NodeStatus(node.name, "done", node.done.reason)
    if not run.started:
        return NodeStatus(node.name, "ready" if node.hello else "starting", "")
    return NodeStatus(node.name, "running" if node.name in hosts else "waiting", "")


def _ranks(
    run: RunView, seen: RunHistory, running: dict[int, RunningWorker], now: float
) -> Iterator[RankStatus]:
    """Yield the status of every rank; `now` is the offset from the loop's clock to the epoch."""
    nodes = {node.node.rank: node for node in run.nodes if not node.over}
    for place in run.plan.nodes:
        for worker in place.workers():
            rank, known = worker.rank, running.get(worker.rank)
            code, stopped = seen.exits.get(rank, (None, False))
            yield RankStatus(
                rank=rank,
                host=place.host.name,
                device=_device(nodes.get(place.rank), worker.device),
                pid=known.pid if known else 0,
                state="running" if known else _ended(code, stopped=stopped),
                since=now + known.since if known else 0.0,
                code=None if known else code,
                last=seen.tail.last_line(rank),
                slow=_slow(run, place.host.name, rank),
            )


def _slow(run: RunView, host: str, rank: int) -> str:
    if not run.record.found:
        return ""
    from ..watch.runner_slow_report import Slow, causes

    return causes(of_kind(run.record.found, Slow), host, rank)


def _ended(code: int | None, *, stopped: bool) -> RankState:
    if code is None:
        return "waiting"
    return "stopped" if stopped else "failed" if code else "ended"


def _device(node: RunNode | None, slot: int | str | None) -> str:
    """Return the device of a slot; a slot may be an index into the node's devices."""
    devices = node.hello.devices if node is not None and node.hello else ()
    if isinstance(slot, int) and slot < len(devices):
        return devices[slot]
    return slot if isinstance(slot, str) else ""
