"""Ask the nodes of a run for the stacks of its ranks."""

from __future__ import annotations

from collections import Counter

from ...head.fleet.node_queries import MOST_MORE
from .messages import STACKS, StacksAsk
from .runner_view import RankView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from ...head.fleet.fleet import NodeFleet
    from ...head.fleet.node_connection import NodeConnection
    from ...head.fleet.node_queries import NodeQuestion
    from ...head.run.run_node import RunNode
    from ...head.run.running_ranks import RunningWorker, Workers
    from .messages import StacksAnswer

    Views: TypeAlias = dict[int, RankView]

PATIENCE = 1.0
"""Seconds for all nodes together to answer, or to say that they take longer."""

FEW = 8
"""Number of ranks on a node whose stacks can be read without a lack of CPUs."""

EACH = 0.05
"""Seconds more for each further rank on the fullest node."""

LONGEST = PATIENCE + MOST_MORE
"""The most seconds in all."""

NATIVE_PATIENCE = 10.0
"""Seconds with frames of native code, whose symbols are read first."""


def collect(
    fleet: NodeFleet,
    nodes: Sequence[RunNode],
    workers: Workers,
    answered: Callable[[Views], None],
    *,
    ranks: Iterable[int] = (),
    native: bool = False,
    save: bool = False,
) -> NodeQuestion:
    """Ask for the stacks of the running workers; `answered` gets a view of each, from the loop.

    A node that is not connected, or does not answer in time, gives its ranks a `problem`.
    Dropping the returned question cancels the answer.

    Args:
        fleet: asks the nodes.
        nodes: the nodes of the run.
        workers: the workers of the run.
        answered: gets the views by rank.
        ranks: the ranks to ask for; all by default.
        native: whether to include frames of native code, which takes seconds.
        save: whether the nodes also write the stacks into the log folder.
    """
    wanted = frozenset(ranks)
    asked = [one for one in workers.running if not wanted or one.rank in wanted]
    hosts = {one.host for one in asked}
    patience = NATIVE_PATIENCE if native else _patience(workers.running)
    lines = {node.name: node.connection for node in nodes if not node.over and node.name in hosts}

    def seen(told: dict[NodeConnection, StacksAnswer]) -> None:
        answers = {name: told[line] for name, line in lines.items() if line in told}
        still = {*workers.running}
        answered(views([one for one in asked if one in still], answers, patience))

    ask = StacksAsk(tuple(sorted(wanted)), native=native, save=save)
    return fleet.node_queries.ask(lines.values(), STACKS, ask, seen, patience)


def show(
    fleet: NodeFleet,
    nodes: Sequence[RunNode],
    workers: Workers,
    log: Callable[[str, str], None],
) -> None:
    """Print the stacks of the running workers, once their nodes have sent them."""
    from .runner_show import StackText

    def seen(found: Views) -> None:
        log(StackText(found).text(gap="\n"), "error")

    collect(fleet, nodes, workers, seen)


def _patience(running: Iterable[RunningWorker]) -> float:
    most = max(Counter(one.host for one in running).values(), default=0)
    return PATIENCE + EACH * max(0, most - FEW)


def views(
    workers: Iterable[RunningWorker], answers: Mapping[str, StacksAnswer], patience: float
) -> Views:
    """Return a view of each worker, given the answers by host; rows of others are left out."""
    return {
        one.rank: _view(one, answers[one.host])
        if one.host in answers
        else RankView(one.rank, one.host, one.pid, problem=f"no stacks within {patience:g} s")
        for one in workers
    }


def _view(worker: RunningWorker, stacks: StacksAnswer) -> RankView:
    processes = tuple(one for one in stacks.processes if one.rank == worker.rank)
    pids = {one.pid for one in processes}
    return RankView(
        *(worker.rank, worker.host, worker.pid, processes),
        threads=tuple(one for one in stacks.threads if one.pid in pids),
        collectives=tuple(one for one in stacks.collectives if one.rank == worker.rank),
        saved=stacks.saved,
        network=tuple(one for one in stacks.network if one.pid in pids),
    )
