"""Makes the timeline of a job from what was kept of it. Pure."""

from __future__ import annotations

from .timeline import Timeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..run.events import RunEvent


def replay(happened: Iterable[tuple[float, RunEvent]], seconds: float) -> Timeline:
    """Return the timeline of a job.

    Args:
        happened: events, each with the seconds from the start of the job, in order.
        seconds: how long the job has lasted so far.
    """
    now = [0.0]
    timeline = Timeline(lambda: now[0])
    last = 0.0
    for at, event in happened:
        now[0] = last = max(last, at)
        timeline.on_event(event)
    now[0] = max(last, seconds)
    return timeline
