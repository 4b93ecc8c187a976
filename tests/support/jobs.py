"""Jobs for dsrun-job to show and ask: made-up statuses, and a server that tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher import __version__
from dsrun.launcher.control.job_messages import DeviceUsage, RankUsage, Usage
from dsrun.launcher.features.jobs.command_view import JobView
from dsrun.launcher.features.jobs.runner_job_status import (
    JobStatus,
    NodeStatus,
    RankStatus,
    as_fields,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.features.jobs.runner_server import LocalCaller, Message

NOW = 1_795_000_000.0
HOSTILE = "[red]bold[/] \x1b[2J\x1b]0;title\x07\u202e\r\n\tend ☃ 漢字"
"""What an outsider may print: markup, terminal codes, line ends, wide characters."""


def status(
    nodes: int = 2, ranks: int = 2, *, job_id: str = "20261122-101112-abcdef", last: str = "step 7"
) -> JobStatus:
    """Return the status of a job with so many ranks on each node."""
    hosts = [f"node-{number:02}" for number in range(nodes)]
    rows = [
        RankStatus(rank, host, f"GPU-{rank}", 4000 + rank, "running", NOW - 60, None, last)
        for rank, host in enumerate(host for host in hosts for _ in range(ranks))
    ]
    return JobStatus(
        version=__version__,
        job_id=job_id,
        pid=7,
        state="running",
        since=NOW - 3700,
        program="train.py --lr 1",
        workdir="/w",
        launcher="ssh",
        elastic=False,
        round=0,
        restarts=0,
        world_size=len(rows),
        running=len(rows),
        nodes=tuple(NodeStatus(host, "running", "") for host in hosts),
        ranks=tuple(rows),
        last=last,
        last_rank=0,
    )


def usage(job: JobStatus, host: str, *, clock: float = 10.0, cpu: float = 5.0) -> Usage:
    """Return what one host of a job reports."""
    ranks = [rank for rank in job.ranks if rank.host == host]
    rows = tuple(RankUsage(one.rank, one.pid, "R", cpu, 3 << 30, 4) for one in ranks)
    devices = tuple(
        DeviceUsage(at, one.device, 90 + at, 33 << 30, 80 << 30) for at, one in enumerate(ranks)
    )
    return Usage(clock, 96, 45.25, 512 << 30, 100 << 30, rows, devices)


def view(job: JobStatus) -> JobView:
    """Return all that is known of a job."""
    used = {node.host: usage(job, node.host) for node in job.nodes}
    return JobView(job, used, {rank.rank: 1.23 for rank in job.ranks})


def verbs(job: JobStatus, asked: list[Message]) -> dict[str, Callable[..., Any]]:
    """Return what a job answers; `asked` gets all requests but those for its status."""

    def note(caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
        asked.append(request)
        if request["do"] == "stop":
            caller._connection._loop.call_later(0.05, caller.close)
        return {"grace": 1.0, "words": "rounds of at most 3 nodes", "ranks": 4}

    def told(_caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
        shown = job if request.get("ranks") else job._replace(ranks=())
        return as_fields(shown)

    def used(_caller: LocalCaller, _request: Message, _fds: list[int]) -> Message:
        return {"nodes": [[one.host, usage(job, one.host)._asdict()] for one in job.nodes]}

    return {"status": told, "usage": used, "stop": note, "signal": note, "scale": note}
