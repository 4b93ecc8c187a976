"""Makes the timeline of a job from its kept records. Pure."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...head.run.events import Started
from .runner_roles_timeline import RolesTimeline
from .runner_timeline import of_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...head.run.events import RunEvent
    from .runner_page import AnyTimeline


class Past(NamedTuple):
    """Something that has happened.

    Attributes:
        at: seconds from the start of the job.
        role: the role of the event, "" in a job of one program.
    """

    at: float
    role: str
    event: RunEvent


class PrintedBlock(NamedTuple):
    """A block of the output of a rank; `role` is as in `Past`."""

    role: str
    rank: int
    data: bytes


def replay(
    happened: Iterable[Past],
    seconds: float,
    roles: Mapping[str, str] | None = None,
    tails: Iterable[PrintedBlock] = (),
) -> AnyTimeline:
    """Return the timeline of a job.

    Args:
        happened: the events, in order.
        seconds: the duration of the job so far.
        roles: the effect of each role's clean end, by its name; empty for one program.
        tails: the newest output, as far as that is not among what has happened.
    """
    now = [0.0]
    whole = of_job(lambda: now[0], roles or {})
    parts = whole.parts if isinstance(whole, RolesTimeline) else {"": whole}
    last = 0.0
    for one in happened:
        now[0] = last = max(last, one.at)
        if isinstance(whole, RolesTimeline) and type(one.event) is Started and one.role in parts:
            whole.restart(one.role)
        if part := parts.get(one.role):
            part.on_event(one.event)
    now[0] = max(last, seconds)
    begun = set[tuple[str, int]]()
    for block in tails:
        if part := parts.get(block.role):
            if (place := (block.role, block.rank)) not in begun:
                part.start_life(block.rank, "")  # which of its lives it was is not known
                begun.add(place)
            part.remember(block.rank, block.data)
    return whole
