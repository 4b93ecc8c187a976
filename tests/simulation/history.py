"""What happened in a job: the same kind of history from a simulated world and from a real one.

A history is a list of events in the order of their times. The kinds, with their fields:

    job: `nodes` {host: workers}, `elastic`, `least`, `max_restarts`, `window`, `grace`, `lease`,
        `bound`: what was asked for; `bound` is when it must have ended, in seconds
    spawned: `pid`, `parent`, `role`, `name`: a process began; roles: runner, guard, launcher, logs,
        lane, worker, child (of a worker), stranger
    worker: `pid`, `rank`, `world`, `round`: this process is the worker of a rank, in a world of so
        many, in a round
    signalled: `pid`, `number`, `by`: a signal was sent to a process, by a pid of the same host (0:
        by the world)
    role: `pid`, `role`: a process has become something else by what it executes: a lane
    ended: `pid`, `status`: a process ended; a wait status
    noticed: `rank`: a worker ends because it does not hear of another worker any more
    look: `number`, `asks`, `what`: a command has asked the running job, or was `answered` or
        `refused`, or the job has `ended` before
    begun: `rank`, `line`, `part`: a worker has written the first part of a line, and writes the
        rest later; if it ends before, the part alone may be shown
    printed: `rank`, `round`, `line`: a worker wrote this whole line (without its end)
    shown: `rank`, `line`: the runner wrote this line of a rank, without its label; rank -1: a line
        of its own
    fed: `line`: a line of the runner's standard input; all are recorded before the job begins
    took: `rank`, `line`: a worker has read this line of its standard input; rank 0 reads all
    round: `number`, `ranks` {host: [ranks]}: a round began, as the runner sees it
    restart: `reason`: the runner counted a restart
    lost: `node`, `reason`, `survived`: the runner lost a node, and goes on without it or not
    listed: `hosts`: a person asks that the job has these hosts from now on
    held: `ports` {host: [ports]}: which ports are held on each host, a while after the start
    fault: `fault`, `target`: the world did something: kill, freeze, cut, power, signal, crash, hang
        ...; for a worker, `target` is its rank, for a process of dsrun its role (on this event's
        host), for a whole host its name, and `output` for the reader of what the runner writes; a
        signal has its `number`; see `checker.truth.FAULTS`
    healed: `fault`, `target`: the world undid it
    report: `report`: the report, as JSON
    exit: `code`: the runner ended
    left: `processes`, `ports`, `files`, `strangers_killed`: what is left at the end, as lists of
        text
    resources: `descriptors`, `timers`, `when`: of a long-lived process (`when` is "before" or
        "after" a job in it)
    shard: `shard`, `rank`: a shard of data was given to a rank

A history of held nodes has several jobs: `of` is the number of the job that an event is about. The
kinds of their own:

    hold: `nodes`, `bound`, `jobs`, `commands`: what was asked for; the last two are numbers
    serving, resting: the nodes can be used; the jobs of a group are over
    command: `number`, `what`: a client runs a command on this event's host
    command_end: `number`, `code`: that is over
    hold_exit: `code`: the hold ended
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Event(NamedTuple):
    """One event.

    Attributes:
        time: seconds since the start of the world.
        host: where it happened; the runner's host for what the runner does.
        kind: see the module.
        fields: of this kind.
    """

    time: float
    host: str
    kind: str
    fields: dict[str, Any]

    def __getitem__(self, name: Any) -> Any:
        """Return a field by its name."""
        return self.fields[name] if isinstance(name, str) else tuple.__getitem__(self, name)


def as_text(events: Iterable[Event]) -> str:
    """Return a history as lines of JSON."""
    return "".join(
        json.dumps({"t": round(one.time, 6), "host": one.host, "kind": one.kind, **one.fields})
        + "\n"
        for one in events
    )


def parse(text: str) -> list[Event]:
    """Return the history in such lines."""
    found = [json.loads(line) for line in text.splitlines()]
    return [Event(one.pop("t"), one.pop("host"), one.pop("kind"), one) for one in found]
