"""Read what running jobs and holds tell of themselves."""

from __future__ import annotations

import json
from contextlib import suppress

from ..common.errors import DsrunError
from ..control import local
from ..control.frames import BadFrame
from ..control.job_status import as_fields, from_answer
from .job_names import Place, ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..control.job_status import JobStatus

OF_HOLD = ("name", "version", "since", "state", "launcher", "hosts", "runs", "last")
"""What is shown of a hold."""


def jobs(places: Iterable[Place], *, ranks: bool) -> list[JobStatus]:
    """Return the status of each job that answers; others have ended meanwhile."""
    found = []
    for place in places:
        if place.kind == local.JOB:
            with suppress(DsrunError, BadFrame):
                found.append(from_answer(ask(place, {"do": "status", "ranks": ranks})))
    return found


def newest(places: Iterable[Place]) -> Place | None:
    """Return the job that was started last, None if none of them answers."""
    known = max(jobs(places, ranks=False), key=lambda one: one.since, default=None)
    return None if known is None else Place(local.JOB, known.job_id)


def holds(places: Iterable[Place]) -> list[dict[str, Any]]:
    """Return what each hold that answers tells of itself."""
    found = []
    for place in places:
        if place.kind == local.HOLD:
            with suppress(DsrunError, KeyError):
                answer = ask(place, {"do": "status"})
                found.append({name: answer[name] for name in OF_HOLD})
    return found


def printed(known: Iterable[JobStatus], held: Iterable[dict[str, Any]]) -> str:
    """Return jobs and holds as JSON; without ranks, which were not asked for."""
    rows = [as_fields(one) for one in known]
    for row in rows:
        del row["ranks"]
    return f"{json.dumps({'jobs': rows, 'holds': list(held)})}\n"
