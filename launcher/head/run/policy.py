"""From options to the rules of a job: what is shown of whom, and how it is watched. Pure."""

from __future__ import annotations

from ...common.errors import UsageError
from ...common.values import NamedTuple
from ...planning.elastic import has_private_logs, is_elastic
from ...resources.ranges import parse_ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ...cli.options import Options
    from ...planning.batch_plan import BatchPlan
    from ...specs.plan import Node, Plan

STREAMS = {0: set[int](), 1: {1}, 2: {2}, 3: {1, 2}}
"""torchrun's numbers for streams, as in --redirects 3."""


WIDTH = 80
"""Columns that the line which opens a job takes at most: those of a terminal nobody has widened."""


class Rules(NamedTuple):
    """How a job is watched and stopped; times in seconds.

    Attributes:
        shown: the streams (1, 2) that go to the console, given (rank, local rank).
        label: the text before each line, given (node, rank, local rank).
        least: nodes without which the job does not start; None for all of them.
        devices: accelerators are expected, so that it is worth a line if there is none.
        stdin: rank 0 reads this process's standard input.
        batches: the elastic plan that the number of workers has to fit, if there is one.
        names_logs: nobody has said where log files go, so that it is worth a line.
        misfit: says what was asked for that a plan does not have, or ""; also given whether it is
            known that there are no accelerators.
        folder: where the workers run, as this machine calls it.
    """

    connect_timeout: float
    start_timeout: float
    lease: float
    grace: float
    graceful_term_ok: bool
    stdin: bool
    shown: Callable[[int, int], set[int]]
    label: Callable[[Node, int, int], str]
    least: int | None = None
    devices: bool = False
    batches: BatchPlan | None = None
    names_logs: bool = False
    misfit: Callable[[Plan, bool], str] = lambda _plan, _bare: ""
    folder: str = ""


def opening(plan: Plan, source: str, job_id: str) -> str:
    """Return the words that open a job: how many nodes, where they are from, and its name.

    `source` is the arrangement's; dsrun's own name goes before this line.
    """
    source = source.partition(" (")[0]
    here = source == "this machine"
    count = len(plan.nodes)
    if plan.launcher == "none":
        before, source, after = f"node 0 of {count}: ", "--no_ssh" if here else source, ""
    elif plan.launcher == "local":
        before, source, after = "this machine", "" if here else f", from {source}", ""
    else:
        before, after = f"{count} node{'s' * (count != 1)} from ", f" over {plan.launcher}"
    after += f"; job {job_id}"
    return before + _folded(source, WIDTH - len(f"dsrun: {before}{after}")) + after


def _folded(text: str, room: int) -> str:
    """Leave out the middle of a text that is too long."""
    if len(text) <= room:
        return text
    start = (room - 3) // 2
    return f"{text[:start]}...{text[len(text) - (room - 3 - start) :]}"


def rules(options: Options, job_id: str) -> Rules:
    """Return how this job is watched, stopped and shown.

    Raises:
        UsageError: an option about output is not understood.
    """
    return Rules(
        connect_timeout=options.connect_timeout,
        start_timeout=options.start_timeout,
        lease=options.heartbeat_timeout,
        grace=options.grace,
        graceful_term_ok=options.graceful_term_ok,
        stdin=options.stdin == "rank0",
        shown=_shown(options),
        label=_label(options.prefix, job_id, options.role),
        misfit=_misfit(options),
        names_logs=has_private_logs(options),
    )


def _shown(options: Options) -> Callable[[int, int], set[int]]:
    away = _streams("--redirects", options.redirects)
    both = _streams("--tee", options.tee)
    ranks = parse_ranks("--console_ranks", options.console_ranks)
    locals_ = parse_ranks("--local_ranks_filter", options.local_ranks_filter)

    def shown(rank: int, local_rank: int) -> set[int]:
        hidden = (ranks and rank not in ranks) or (locals_ and local_rank not in locals_)
        return set() if hidden else ({1, 2} - away(local_rank)) | both(local_rank)

    return shown


def _misfit(options: Options) -> Callable[[Plan, bool], str]:
    """Return what looks for the devices that are asked for by name, and the ranks to be shown.

    Ranks of elastic jobs may yet come.
    """
    ranks = parse_ranks("--console_ranks", options.console_ranks)
    locals_ = parse_ranks("--local_ranks_filter", options.local_ranks_filter)

    def misfit(plan: Plan, bare: bool) -> str:
        if bare and options.nproc_per_node in {"gpu", "xpu"}:
            return f"--nproc_per_node {options.nproc_per_node}: the hosts have no accelerator"
        if is_elastic(options) or plan.rendezvous or plan.world_size is None:
            return ""
        workers = [one for node in plan.nodes for one in node.workers()] if ranks | locals_ else []
        return _lacking("--console_ranks", ranks, {one.rank for one in workers}) or _lacking(
            "--local_ranks_filter", locals_, {one.local_rank for one in workers}
        )

    return misfit


def _lacking(where: str, named: frozenset[int | str], found: Collection[int]) -> str:
    lacking = named.difference(found)
    if not lacking:
        return ""
    what = "ranks" if where == "--console_ranks" else "local ranks"
    return f"{where} {min(map(int, lacking))}: the {what} of this job are 0 to {max(found)}"


def _streams(where: str, text: str) -> Callable[[int], set[int]]:
    """Return the streams that `3` or `0:1,1:3` (local rank: streams) names, by local rank."""
    by_rank: dict[int, set[int]] = {}
    everyone: set[int] = set()
    try:
        for item in text.split(","):
            rank, colon, number = item.rpartition(":")
            if colon:
                by_rank[int(rank)] = STREAMS[int(number)]
            else:
                everyone = STREAMS[int(number)]
    except (ValueError, KeyError):
        raise UsageError(
            f"{where} {text!r}: expected 0 to 3, or LOCAL_RANK:0-3 joined by commas"
        ) from None
    return lambda local_rank: by_rank.get(local_rank, everyone)


def _label(form: str, job_id: str, role: str) -> Callable[[Node, int, int], str]:
    def label(node: Node, rank: int, local_rank: int) -> str:
        return form.format(
            host=node.host.name,
            rank=rank,
            local_rank=local_rank,
            node_rank=node.node_rank,
            job=job_id,
            role=role,
        )

    try:
        form.format(host="", rank=0, local_rank=0, node_rank=0, job="", role="")
    except (KeyError, ValueError, IndexError, AttributeError, TypeError):
        known = "{host} {rank} {local_rank} {node_rank} {job} {role}"
        raise UsageError(f"--prefix {form!r}: expected text with any of {known}") from None
    return label
