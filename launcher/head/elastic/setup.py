"""An elastic job, and what it hears of while it runs: other hosts, another number of nodes."""

from __future__ import annotations

from ...planning.elastic import grows
from ...planning.planner import relisted
from ...resources import source
from . import host_watch, scale_socket
from .job import Elastic, ElasticJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...backends.base import Part
    from ...cli.options import Options
    from ...common.loop import Loop
    from ...specs.elastic_policy import Limits
    from ...specs.plan import Node
    from ..output.console import Console


def elastic_job(
    limits: Limits, part: Callable[[Node], Part], options: Options, *made_of: Any
) -> ElasticJob:
    """Return an elastic job that hears of all this; what follows the options is a Job's.

    `part` makes the backend for a node that the plan did not have.
    """
    job_id, plan, loop, console, rules, *more = made_of
    rules = rules._replace(least=limits.least)
    job = ElasticJob(Elastic(limits, part), job_id, plan, loop, console, rules, *more)
    if grows(options):
        _watch(job, options, loop, console)
    _listen(job, job_id, loop, console)
    return job


def _watch(job: ElasticJob, options: Options, loop: Loop, console: Console) -> None:
    script = options.host_discovery_script
    ask = (
        host_watch.of_program(script, loop)
        if script
        else host_watch.of_file(source.watched(options))
    )
    host_watch.HostWatch(
        loop,
        ask,
        lambda text: relisted(options, text),
        job.list_hosts,
        lambda text: console.say(text, "warning"),
    )


def _listen(job: ElasticJob, job_id: str, loop: Loop, console: Console) -> None:
    try:
        scale_socket.Requests(loop, scale_socket.door(job_id), job.resize)
    except OSError as error:
        console.say(f"dsrun-scale cannot reach this job: {error.strerror}", "debug")
