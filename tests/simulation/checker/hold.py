"""Holds: their history as one of each job, and what holds for all jobs together. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .facts import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from ..history import Event
    from .facts import Facts, Problem

LEAVES = 1.0
"""Seconds after the end of a command until its client has left, and nothing of it is open."""

OF_ALL = ("hold", "serving", "resting", "resources", "command", "command_end", "hold_exit")
"""Events that are of no job."""


def jobs(history: Sequence[Event]) -> Iterator[list[Event]]:
    """Return a history of each job: without what is of others, or of nodes that it does not use."""
    children = _children(history)
    for job in (event for event in history if event.kind == "job"):
        hosts, number = {"login", *job.fields["nodes"]}, job.fields["of"]
        own = {
            (one.host, one.fields["pid"])
            for one in history
            if one.kind == "worker" and one.fields["of"] == number
        }
        # A pid may have been that of another job's child before it was that of a worker.
        foreign = {child for child, of in children.items() if of != number} - own
        here = [one for one in history if _belongs(one, number, hosts, foreign)]
        yield [_left(hosts, foreign, one) if one.kind == "left" else one for one in here]


def used(history: Sequence[Event]) -> set[str]:
    """Return the hosts that jobs have used."""
    return {host for one in history if one.kind == "job" for host in one.fields["nodes"]}


def _children(history: Sequence[Event]) -> dict[tuple[str, int], int]:
    """Return whose job the processes are that workers have started, by host and pid."""
    owners: dict[tuple[str, int], int] = {}
    found: dict[tuple[str, int], int] = {}
    for event in history:
        if event.kind == "worker":
            owners[event.host, event.fields["pid"]] = event.fields["of"]
        elif event.kind == "spawned" and (event.host, event.fields["parent"]) in owners:
            child = event.host, event.fields["pid"]
            owners[child] = found[child] = owners[event.host, event.fields["parent"]]
    return found


def _belongs(
    event: Event, number: int, hosts: set[str], foreign: AbstractSet[tuple[str, int]]
) -> bool:
    if event.kind in OF_ALL or event.fields.get("of", number) != number:
        return False
    if (event.host, event.fields.get("pid", 0)) in foreign:
        return False
    return event.host in hosts


def _left(hosts: set[str], foreign: AbstractSet[tuple[str, int]], event: Event) -> Event:
    """Return what a job has left on its hosts, without what is of other jobs."""
    kept = {
        name: [one for one in texts if one.partition(":")[0] in hosts]
        for name, texts in event.fields.items()
    }
    kept["processes"] = [
        text
        for text in kept["processes"]
        if not any(text.startswith(f"{host}: ") and f"(pid {pid}," in text for host, pid in foreign)
    ]
    return event._replace(fields=kept)


def _struck(facts: Facts, index: int) -> bool:
    """Return whether something but a worker was hit before an event."""
    return any(
        not isinstance(event.fields["target"], int) and "of" not in event.fields
        for number, event in facts.of_kind("fault")
        if number < index
    )


def _asked(facts: Facts, name: str) -> float:
    event = facts.first("hold")
    assert event is not None
    return float(event.fields[name])


def hold_ends(facts: Facts) -> Iterator[Finding]:
    """A hold ends once, in time, and with 0 if nothing strikes it."""
    found = list(facts.of_kind("hold_exit"))
    if len(found) != 1:
        yield Finding(found[1][0] if found else -1, f"{len(found)} ends of the hold")
    for index, event in found:
        if event.fields["code"] and not _struck(facts, index):
            yield Finding(index, f"the hold ended with {event['code']}")
        if event.time > _asked(facts, "bound"):
            yield Finding(index, f"the hold ended at {event.time:g} s")


def every_job_runs(facts: Facts) -> Iterator[Finding]:
    """All jobs have been begun if nothing strikes the hold."""
    begun, wanted = len(list(facts.of_kind("job"))), _asked(facts, "jobs")
    if begun != wanted and not _struck(facts, len(facts.history)):
        yield Finding(-1, f"{begun} of {wanted} jobs")


def commands_end(facts: Facts) -> Iterator[Finding]:
    """Each command has one end, unless the hold was killed."""
    ended = Counter(event.fields["number"] for _, event in facts.of_kind("command_end"))
    killed = any(event.fields["code"] < 0 for _, event in facts.of_kind("hold_exit"))
    for index, event in facts.of_kind("command"):
        count = ended[event.fields["number"]]
        if count != 1 and not (killed and not count):
            yield Finding(index, f"{count} ends of {event['what']}", event.host)


def rest_is_empty(facts: Facts) -> Iterator[Finding]:
    """Between jobs no worker lives, and no child of one, if all nodes are there."""
    for index, _ in facts.of_kind("resting"):
        for one in () if _struck(facts, index) else facts.processes:
            if one.lives_at(index) and (one.rank >= 0 or one.role == "child"):
                yield Finding(index, f"{one} lives while the hold rests", one.host)


def resources_level(facts: Facts) -> Iterator[Finding]:
    """With as many lanes as before, as many descriptors, timers and processes as before a job.

    It is compared once all commands have ended, and their clients have left.
    """
    before: dict[str, tuple[int, ...]] = {}
    ended = [event.time for _, event in facts.of_kind("command_end")]
    for index, event in facts.of_kind("resources"):
        if sum(one < event.time - LEAVES for one in ended) < _asked(facts, "commands"):
            continue
        now = tuple(event.fields[name] for name in ("lanes", "descriptors", "timers"))
        if event.fields["when"] == "before":
            before[event.host] = now
            continue
        then = before.pop(event.host, now)
        if then[0] == now[0] and then != now and not _struck(facts, index):
            yield Finding(index, f"lanes, descriptors, timers: {then} before, {now} after")


RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    *(hold_ends, every_job_runs, commands_end, rest_is_empty, resources_level),
)


def problems(facts: Facts) -> Iterator[Problem]:
    """Return what breaks a rule of holds; its name is that of the function."""
    for rule in RULES:
        for one in rule(facts):
            yield facts.problem(f"hold_{rule.__name__}", one.text, one.at, one.host, one.rank)
