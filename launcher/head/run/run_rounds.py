"""What a run does for the rounds of an elastic job, as its restart policy has decided."""

from __future__ import annotations

import signal
from functools import partial

from ...common.wording import counted
from ...control import frames, messages
from ..fleet.hosts import some_of
from .decisions import Admit, BeginRound, DropStart, FormRound, Release
from .effects import ExpectBeats
from .start_message import round_frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .run_node import RunNode
    from .run_state import RunState


def table(run: RunState) -> dict[type, Callable[..., None]]:
    """Return what handles each of these decisions."""
    return {
        Admit: lambda it: admit(run, it.node),
        BeginRound: partial(begin_round, run),
        DropStart: lambda it: run.staged.drop(it.node),
        FormRound: partial(form_round, run),
        Release: lambda it: release(run, it.node),
    }


def admit(run: RunState, node: RunNode) -> None:
    """Have a node that has come wait for a round."""
    run.do(ExpectBeats(node))
    run.send((node,), messages.pack(frames.START, run.start_message(node.node, "", 0)))


def release(run: RunState, node: RunNode) -> None:
    """Have a node end that is not needed any more."""
    run.staged.drop(node)
    stop = messages.Stop(signal.SIGTERM, run.grace)
    run.send((node,), messages.pack(frames.STOP, stop))


def begin_round(run: RunState, begun: BeginRound) -> None:
    """Note a round that torch's agents have formed."""
    run.forget_round()
    run.record.restarts = begun.place.restarts
    if run.observers:
        run.observers.round(begun.number, begun.place, [node.name for node in begun.nodes])


def form_round(run: RunState, formed: FormRound) -> None:
    """Have the nodes of a round begin."""
    run.forget_round()
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
        node.begin()
        run.send((node,), frame)
    if run.observers:
        run.observers.round(formed.number, place, [node.name for node in formed.nodes])
