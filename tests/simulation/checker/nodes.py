"""What holds for nodes that are lost, removed, left out, or given up.

These rules know the faults: a node that nothing has hit is not lost, and one that is silent is
missed in time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dsrun.launcher.control.messages import BEATS

from .facts import KILL, STOP_SIGNALS, Finding
from .truth import ENGINE, healed, host_of, what

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..history import Event
    from .facts import Facts, Problem, Process

SILENT = "no heartbeat for "
"""How the runner begins to say that it has not heard of a node."""

LATE = 1.0
"""Seconds, beyond the lease and a heartbeat, after which a silent node must have been missed."""

BEATEN = 1 + 1 / BEATS
"""Leases after which a silent node is missed that had to wait for the look at a lane of its own."""

CONNECTED = 6.0
"""Seconds after the start of a node launcher until the runner must know of it."""

FORMING = 3.0
"""Seconds from the decision on a round until its workers have begun, over a slow network."""

ENDING = 1.0
"""Seconds before the report in which node launchers end that were there until then."""

LEAVES = 5.0
"""Seconds, beyond the grace, after which a removed node must have left."""

SOON = 3.0
"""Seconds after a failure until all workers have been asked to end."""

NEXT_ROUND = re.compile(r"dsrun: next round: (\d+) workers? on .*")


def losses(facts: Facts) -> list[tuple[int, Event]]:
    """Return the losses of nodes, with their indexes."""
    return list(facts.of_kind("lost"))


def _harmed(facts: Facts, host: str, until: int, since: int = 0) -> bool:
    """Return whether a fault between two events may have hit a node, its line or the runner."""
    return any(
        since <= index < until and _harms(event, host) for index, event in facts.of_kind("fault")
    )


def _harms(event: Event, host: str) -> bool:
    kind = what(event)
    if kind == "worker" or (event.fields["fault"], kind) in HARMLESS:
        return False
    return kind == "runner" or host_of(event) == host or event.fields["fault"] == "unfit"


HARMLESS = (
    *(("slow", "host"), ("chatty", "host"), ("clock", "host"), ("remove", "host")),
    *(("close", "output"), ("stall", "output")),
)
"""Faults for which no node is lost; nor is one for what befalls a worker."""


def loss_is_a_fault(facts: Facts) -> Iterator[Finding]:
    """No node is lost that nothing has hit."""
    for index, event in losses(facts):
        if not _harmed(facts, event.fields["node"], index):
            yield Finding(index, f"lost {event['node']}: {event['reason']}", event.fields["node"])


def silence_is_real(facts: Facts) -> Iterator[Finding]:
    """A runner that has stood still gives its nodes their time again."""
    lease = facts.asked("lease", 0.0)
    stood = [
        (event.time, healed(facts, index))
        for index, event in facts.of_kind("fault")
        if event.fields["fault"] in {"freeze", "suspend"} and what(event) == "runner"
    ]
    # Of two stops at once the first that heals ends both.
    seen = [(begin, min(end for _, end in stood if end > begin)) for begin, _ in stood]
    ends = [end for begin, end in seen if end - begin >= 0.75 * lease]
    for index, event in losses(facts):
        silent = event.fields["reason"].startswith(SILENT)
        if silent and any(end <= event.time < end + 0.9 * lease for end in ends):
            yield Finding(index, f"lost {event['node']}: {event['reason']}", event.fields["node"])


def silence_is_noticed(facts: Facts) -> Iterator[Finding]:
    """A node that is cut off while its workers run is lost as soon as the lease is over."""
    lease, lost = facts.asked("lease", 0.0), losses(facts)
    kinds = ("cut", "cut out", "half open", "power", "freeze host")
    for index, event in facts.of_kind("fault"):
        last, host = event.time + lease * BEATEN + LATE, host_of(event)
        if event.fields.get("what") not in kinds or facts.over[1] <= last:
            continue
        lasts = event.fields["what"] in {"half open", "power"} or healed(facts, index) > last
        works = any(one.host == host and one.lives_at(index) for one in facts.workers)
        known = any(one.fields["node"] == host and one.time <= last for _, one in lost)
        if lasts and works and not known and not _disturbed(facts, host, last):
            yield Finding(index, f"{host} is not lost by {last:g} s", host)


def _disturbed(facts: Facts, host: str, until: float) -> bool:
    """Return whether the runner stood still, or the network was slow, or the node was to leave."""
    return any(
        event.time <= until
        and (what(event) == "runner" or event.fields["fault"] in {"delay", "stall", "remove"})
        for _, event in facts.of_kind("fault")
        if what(event) == "runner" or host_of(event) == host
    )


def given_up_rightly(facts: Facts) -> Iterator[Finding]:
    """A job has not too few nodes while there are enough that nothing has hit since they began."""
    least, removed = facts.asked("least", 0), _removed(facts)
    for lost in facts.report.get("lost", ()):
        if lost["host"] or not facts.asked("elastic") or lost["reason"].startswith(ENGINE):
            continue
        there = {
            one.host
            for one in facts.processes
            if one.role == "launcher" and one.host not in removed
            if facts.history[one.born].time < facts.over[1] - CONNECTED
            if one.ended_at > facts.over[1] - ENDING
            if not _harmed(facts, one.host, facts.over[0], one.born)
            if not any(_is_unfit(event, one.host) for _, event in facts.of_kind("fault"))
        }
        if len(there) >= least:
            yield Finding(-1, f"{lost['reason']}, but there are {sorted(there)}")


def _is_unfit(event: Event, host: str) -> bool:
    return (event.fields["fault"], event.fields["target"]) == ("unfit", host)


def _removed(facts: Facts, until: int = 1 << 60) -> dict[str, int]:
    """Return the hosts that are not on the list by an event, and since which event."""
    found: dict[str, int] = {}
    for index, event in facts.of_kind("listed", "fault"):
        if index < until and event.kind == "listed":
            found = {host: at for host, at in found.items() if host not in event.fields["hosts"]}
        elif index < until and event.fields["fault"] == "remove":
            found.setdefault(event.fields["target"], index)
    return found


def removed_stay_out(facts: Facts) -> Iterator[Finding]:
    """A round has a removed host only if there are too few others."""
    for index, event in facts.of_kind("round"):
        ranks, removed = event.fields["ranks"], _removed(facts, index)
        begun = [one.since for one in facts.workers if one.round == event.fields["number"]]
        formed = facts.history[min(begun, default=index)].time - FORMING
        for host in ranks:
            early = host in removed and facts.history[removed[host]].time < formed
            if early and len(ranks) > facts.asked("least", 0):
                yield Finding(index, f"round {event['number']} has {host}, removed before", host)


def removal_is_told(facts: Facts) -> Iterator[Finding]:
    """A removed host that was in a round, and is not in the next one, is released with a line."""
    lines = {
        event.fields["line"] for _, event in facts.of_kind("shown") if event.fields["rank"] < 0
    }
    used: set[str] = set()
    for index, event in facts.of_kind("round"):
        for host, since in _removed(facts, index).items():
            there = any(one.host == host and one.lives_at(since) for one in facts.workers)
            hit = _harmed(facts, host, len(facts.history)) or host not in _removed(facts)
            told = f"dsrun: removing {host} from the job" in lines
            if there and host in used - {*event.fields["ranks"]} and not hit and not told:
                yield Finding(index, f"{host} is not in round {event['number']}", host)
        used |= {*event.fields["ranks"]}


def removed_in_time(facts: Facts) -> Iterator[Finding]:
    """The workers of a removed host are asked to end soon, if nothing else happens to the job."""
    nothing_else = all(_is_quiet(event) for _, event in facts.of_kind("fault"))
    if not nothing_else or not facts.asked("elastic") or facts.asked("of") is not None:
        return
    for host, since in _removed(facts).items():
        last = facts.history[since].time + facts.asked("grace", 0.0) + LEAVES
        here = [one for one in facts.workers if one.host == host and one.lives_at(since)]
        beside = [one for one in facts.workers if here and one.round == here[0].round]
        hosts = {one.host for one in beside}
        done = any(one.status == 0 and one.ended_at <= last for one in beside)
        enough = len(hosts - {*_removed(facts)}) >= facts.asked("least", 0)
        for one in here if enough and not done else ():
            told = any(sent.time <= last for sent in one.sent((*STOP_SIGNALS, KILL)))
            if not told and min(one.ended_at, facts.over[1]) > last:
                yield Finding(since, f"{one} was not stopped by {last:g} s", host)


def _is_quiet(event: Event) -> bool:
    return event.fields["fault"] == "remove" or (event.fields["fault"], what(event)) in HARMLESS


def left_out_hold_nothing(facts: Facts) -> Iterator[Finding]:
    """A node without which a static job has started holds no port."""
    if facts.asked("elastic") or not facts.asked("least", 0):
        return
    rounds = [event.fields["ranks"] for _, event in facts.of_kind("round")]
    for index, event in facts.of_kind("held"):
        for host, ports in event.fields["ports"].items():
            used = any(host in ranks for ranks in rounds)
            if ports and not used and not _cut_off(facts, host, index):
                yield Finding(index, f"{host} is not used, and holds {ports}", host)


def _cut_off(facts: Facts, host: str, until: int) -> bool:
    """Return whether a node may not have heard that it is left out."""
    return any(
        index < until and event.fields["fault"] not in {"unfit", "refuse"} and _harms(event, host)
        for index, event in facts.of_kind("fault")
    )


def rounds_are_told(facts: Facts) -> Iterator[Finding]:
    """A line about a round says how many workers it has."""
    sizes = {one.world for one in facts.workers}
    for index, event in facts.of_kind("shown"):
        told = NEXT_ROUND.fullmatch(event.fields["line"]) if event.fields["rank"] < 0 else None
        if told and not int(told[1]):
            yield Finding(index, f"{event['line']!r}: there are rounds of {sorted(sizes)}")


def lost_workers_are_told(facts: Facts) -> Iterator[Finding]:
    """If the job goes on without a node whose workers may still run, a line says so."""
    lines = [
        event.fields["line"] for _, event in facts.of_kind("shown") if event.fields["rank"] < 0
    ]
    for index, event in losses(facts):
        host = event.fields["node"]
        works = any(
            one.host == host and one.lives_at(index) and _shown(facts, one, index)
            for one in facts.workers
        )
        told = any(f"may still be running on {host}" in line for line in lines)
        silent = event.fields["survived"] and event.fields["reason"].startswith(SILENT)
        if silent and works and not told:
            yield Finding(index, f"nothing says what may still run on {host}", host)


def _shown(facts: Facts, worker: Process, until: int) -> bool:
    """Return whether the runner knows that a worker has begun: its round has."""
    rounds = [event.fields["number"] for index, event in facts.of_kind("round") if index < until]
    return rounds[-1:] == [worker.round]


def stopped_soon(facts: Facts) -> Iterator[Finding]:
    """When a worker of a static job fails, the others are asked to end at once."""
    if facts.asked("elastic"):
        return
    failed = [one for one in facts.workers if _failed(one)]
    first = min((one.ended_at for one in failed), default=float("inf"))
    hit = any(event.time <= first + SOON and _slows(event) for _, event in facts.of_kind("fault"))
    if first + SOON >= facts.over[1]:
        return
    for one in facts.workers:
        if one.ended_at <= first + SOON or facts.history[one.since].time > first:
            continue
        told = any(sent.time <= first + SOON for sent in one.sent((*STOP_SIGNALS, KILL)))
        if not told and not hit:
            yield Finding(one.since, f"{one} was not stopped by {first + SOON:g} s", one.host)


def _failed(worker: Process) -> bool:
    return bool(worker.status) and not worker.signals


def _slows(event: Event) -> bool:
    """Return whether a fault may keep the runner from hearing, or the nodes from being told."""
    return what(event) != "worker"


RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    *(loss_is_a_fault, silence_is_real, silence_is_noticed, given_up_rightly),
    *(removed_stay_out, removal_is_told, removed_in_time, left_out_hold_nothing),
    *(rounds_are_told, lost_workers_are_told, stopped_soon),
)


def problems(facts: Facts) -> Iterator[Problem]:
    """Return what breaks a rule; its name is that of the function."""
    for rule in RULES:
        for one in rule(facts):
            yield facts.problem(rule.__name__, one.text, one.at, one.host, one.rank)
