"""Views of ranks on local control: one event for each rank, then the answer."""

from __future__ import annotations

from ...common.errors import LostError
from ...control import frames
from ...control.local_client import checked
from ...specs.field_types import Misfit, reader, register
from .messages import Collective, NetworkUse, ProcessState, ThreadStack
from .runner_view import RankView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...control.local_client import LocalClient, Message
    from ..jobs.runner_server import LocalCaller

EVENT = "stacks"
"""The type of these events."""

MOST_PENDING = 64 << 20
"""Bytes that may wait for a caller; further ranks come without their stacks."""

MARGIN = 10.0
"""Seconds beyond the patience with nodes for the runner to answer."""


def send(caller: LocalCaller, views: Iterable[RankView]) -> None:
    """Send views to a caller."""
    for view in views:
        fits = caller.pending < MOST_PENDING
        small = RankView(view.rank, view.host, view.pid, problem="left out: too much to send")
        caller.event({"event": EVENT, "view": view if fits else small})


def ask(client: LocalClient, request: Message, patience: float) -> dict[int, RankView]:
    """Ask a runner for the stacks of its ranks; return them by rank.

    Args:
        client: the connection to the runner.
        request: the request, without the verb.
        patience: seconds for the nodes to answer.

    Raises:
        DsrunError: the runner refuses, does not answer in time, or has ended.
    """
    number = client.send({"do": "stacks", **request})
    views: dict[int, RankView] = {}
    for one in client.frames(patience + MARGIN):
        if one.kind == frames.EVENT and one.message.get("event") == EVENT:
            view = _received(one.message)
            views[view.rank] = view
        elif one.kind == frames.ANSWER and one.message.get("id") == number:
            checked(one.message)
            return dict(sorted(views.items()))
    raise LostError("it exited before it could answer")


def _received(message: Message) -> RankView:
    try:
        view: RankView = reader("RankView")(message.get("view"))
    except Misfit as misfit:
        raise LostError(f"its answer is not valid: {misfit}") from None
    return view


register(RankView, Collective, NetworkUse, ProcessState, ThreadStack)
