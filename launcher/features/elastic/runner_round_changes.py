"""Changes of a run for the rounds of an elastic job, decided by its restart policy."""

from __future__ import annotations

import signal

from ...common.records import NamedTuple
from ...common.wording import counted
from ...control import frames, messages
from ...head.fleet.hosts import some_of
from ...head.run.start_message import round_frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...control.round_messages import Ranks
    from ...head.run.run_node import RunNode
    from ...head.run.run_state import RunState
    from ...specs.plan import Plan


class FormRound(NamedTuple):
    """A round of dsrun's own, in which workers are to begin.

    Attributes:
        nodes: the nodes of the round, in the order of their ranks.
        plan: the ranks of each node.
        master: MASTER_ADDR.
        port: MASTER_PORT.
        restarts: the number of failures so far.
        most: the maximum number of failures.
    """

    nodes: Sequence[RunNode]
    plan: Plan
    master: str
    port: int
    number: int
    restarts: int
    most: int


def admit(run: RunState, node: RunNode) -> None:
    """Make a node that has connected wait for a round."""
    run.do(run.act.expect_beats, node)
    run.send((node,), messages.pack(frames.START, run.start_message(node.node, "", 0)))


def release(run: RunState, node: RunNode) -> None:
    """Release a node that is no longer needed; its node launcher ends."""
    run.staged.remove(node)
    stop = messages.Stop(signal.SIGTERM, run.grace)
    run.send((node,), messages.pack(frames.STOP, stop))


def start_round(run: RunState, number: int, place: Ranks, nodes: Sequence[RunNode]) -> None:
    """Note a round that torch's agents have formed.

    Args:
        run: the run.
        number: the number of the round.
        place: the place of one of its nodes.
        nodes: the nodes of the round that this runner started.
    """
    run.clear_round()
    run.record.restarts = place.restarts
    if run.observers:
        run.observers.round(number, place, [node.name for node in nodes])


def form_round(run: RunState, formed: FormRound) -> None:
    """Start a round on its nodes."""
    run.clear_round()
    run.record.restarts = formed.restarts
    run.label(formed.plan)
    hosts = some_of([node.name for node in formed.nodes])
    size = counted(formed.plan.world_size or 0, "worker")
    run.log(f"next round: {size} on {hosts}", "info" if formed.number > 1 else "debug")
    if run.shards:
        run.shards.new_round(formed.number)
    first = formed.nodes[0].node
    place = run.start_message(first, formed.master, formed.port)._replace(
        generation=formed.number, restarts=formed.restarts, max_restarts=formed.most
    )
    frames_of = round_frames(place, [node.node for node in formed.nodes])
    for node, frame in zip(formed.nodes, frames_of, strict=True):
        node.start()
        run.send((node,), frame)
    if run.observers:
        run.observers.round(formed.number, place, [node.name for node in formed.nodes])
