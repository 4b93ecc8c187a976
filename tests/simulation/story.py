"""A history as a story that a person reads: time, host, event."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .history import Event

LONGEST = 150


def line_of(event: Event) -> str:
    """Return a line about an event."""
    told = _WORDS[event.kind](event) if event.kind in _WORDS else _plain(event)
    text = f"{event.time:10.4f} {event.host:>6}  {told}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _plain(event: Event) -> str:
    return f"{event.kind} {json.dumps(event.fields)}"


def _spawned(event: Event) -> str:
    return f"+ {event['role']} {event['name']} (pid {event['pid']}, below {event['parent']})"


def _ended(event: Event) -> str:
    code = os.waitstatus_to_exitcode(event.fields["status"])
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"- pid {event['pid']}: {how}"


def _signalled(event: Event) -> str:
    name = signal.Signals(event.fields["number"]).name
    return f"! {name} to pid {event['pid']} by {event['by'] or 'the world'}"


def _worker(event: Event) -> str:
    return (
        f"  pid {event['pid']} is rank {event['rank']} of {event['world']}, round {event['round']}"
    )


def _fault(event: Event) -> str:
    return f"* {event.fields.get('what', event['fault'])}: {event['target']}"


def _healed(event: Event) -> str:
    return f"* healed: {event['fault']} of {event['target']}"


def _line(event: Event) -> str:
    return f"  rank {event['rank']} {event.kind}: {event.fields['line'][:60]}"


_WORDS = {
    "spawned": _spawned,
    "ended": _ended,
    "signalled": _signalled,
    "worker": _worker,
    "fault": _fault,
    "healed": _healed,
    "printed": _line,
    "shown": _line,
}
