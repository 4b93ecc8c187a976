"""The events of a job as JSON, for the command of --on_event. Pure."""

from __future__ import annotations

from ...common.exit_codes import as_shell
from ...common.formats import versioned
from ...head.run.events import Alarm, AlarmOver, Exit, JobEnded, Lost, Round, Started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...head.run.events import RunEvent
    from . import runner_json_types as json_types


def event_json(
    event: RunEvent, job_id: str, seconds: float, role: str = ""
) -> dict[str, Any] | None:
    """Return an event as JSON values; None for one that no command is run for.

    The command gets it with two more fields (`runner_json_types.EveryEvent`).

    Args:
        event: the event.
        job_id: the id of the job.
        seconds: since the job began.
        role: the event's role in a job of several; else "".
    """
    fields = _fields(event)
    if fields is None:
        return None
    origin: json_types.EventOrigin = {"job_id": job_id, "seconds": round(seconds, 3)}
    named = {"role": role} if role else {}
    return versioned("event", {"event": fields["event"], **origin, **named, **fields})


def _fields(event: RunEvent) -> json_types.Event | None:
    """Return the own fields of an event; None for one that is not reported."""
    fields: json_types.Event | None = None
    match event:
        case Started():
            fields = _start(event)
        case Exit():
            fields = _failure(event)
        case Round():
            fields = _restart(event)
        case Lost():
            fields = _lost(event)
        case Alarm():
            fields = _alarm(event)
        case AlarmOver():
            fields = _alarm_over(event)
        case JobEnded():
            fields = _job_end(event)
    return fields


def _start(event: Started) -> json_types.StartJson:
    address, port = event.master
    return {
        "event": "start",
        "hosts": event.hosts,
        "world_size": event.world_size,
        "master_addr": address,
        "master_port": port,
    }


def _failure(event: Exit) -> json_types.FailureJson | None:
    if event.stopped or not event.code:
        return None
    return {
        "event": "failure",
        "rank": event.rank,
        "host": event.host,
        "pid": event.pid,
        "exit_code": as_shell(event.code),
        "hint": event.hint,
    }


def _restart(event: Round) -> json_types.RestartJson | None:
    if event.number <= 1:
        return None
    return {
        "event": "restart",
        "round": event.number,
        "restarts": event.restarts,
        "hosts": event.hosts,
        "world_size": event.world_size,
    }


def _lost(event: Lost) -> json_types.LostJson:
    return {
        "event": "lost",
        "host": event.host,
        "reason": event.reason,
        "goes_on": event.survived,
    }


def _alarm(event: Alarm) -> json_types.AlarmJson:
    return {"event": event.kind, "sentence": event.sentence, "then": event.then}


def _alarm_over(event: AlarmOver) -> json_types.OverJson:
    return {"event": "over", "kind": event.kind, "sentence": event.sentence}


def _job_end(event: JobEnded) -> json_types.EndJson:
    ending = event.ending
    return {
        "event": "end",
        "exit_code": ending.code,
        "error": "" if ending.error is None else str(ending.error),
        "report": ending.data if ending.error is None else None,
    }
