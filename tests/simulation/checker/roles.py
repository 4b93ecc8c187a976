"""Jobs of several roles: what holds for each role as for a job, and for all of them. Pure.

In such a history `of` is the number of a role, in the order of the event `roles`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import exceptions, hold, safety
from .facts import STOP_SIGNALS, Facts, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..history import Event
    from .facts import Problem, Process

OF_EACH = (
    *(safety.one_worker_per_rank, safety.spare_used_once, safety.one_stop_signal),
    *(safety.stop_before_kill, safety.grace_from_below, safety.grace_from_above),
)
"""Rules that hold for the workers of each role as for those of a job."""

OF_THE_JOB = (
    *(safety.one_report, safety.one_exit, safety.within_bound),
    *(safety.nothing_left, safety.strangers_alive),
)
"""Rules that hold for the job as a whole."""

TOLD_AFTER = 11.0
"""Seconds of waiting for another role after which a line has told of it."""

HEARD_AFTER = 0.5
"""Seconds after the start of a worker in which the runner has heard of it over a good network."""

FIRST_LINE = "step 0 "
"""What a role has printed that is ready with a line."""

BELOW = ("guard", "launcher", "lane", "runner", "host")
"""What ends workers by itself, in no order of roles, once it was hit."""


class Part(NamedTuple):
    """A role as it was asked for, and its workers in the order of their starts."""

    number: int
    name: str
    ends: str
    after: tuple[str, ...]
    line: bool
    restarts: int
    ranks: int
    elastic: bool
    workers: list[Process]

    def lives(self, rank: int) -> list[Process]:
        """Return the workers of a rank, one after another."""
        return [one for one in self.workers if one.rank == rank]

    def all_begun(self, number: int) -> bool:
        """Return whether every rank had a worker in a round; else a node was lost before that."""
        return len({one.rank for one in self.workers if one.round == number}) == self.ranks


class Roles:
    """A history of a job of roles.

    Attributes:
        facts: the whole history.
        parts: the roles, by name.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        event = facts.first("roles")
        assert event is not None
        owners = {
            (one.host, one.fields["pid"], index): one.fields["of"]
            for index, one in facts.of_kind("worker")
        }
        self.parts: dict[str, Part] = {}
        for number, role in enumerate(event.fields["roles"]):
            own = [w for w in facts.workers if owners[w.host, w.pid, w.since] == number]
            self.parts[role["name"]] = _part(number, role, own)

    def users(self, name: str) -> list[Part]:
        """Return the roles that have to end before a role is stopped."""
        direct = [one for one in self.parts.values() if name in one.after]
        return [*direct, *(other for one in direct for other in self.users(one.name))]

    def ready(self, part: Part, index: int) -> bool:
        """Return whether a role was ready at some time before an event, or had ended well."""
        if self.ended_well(part, index):
            return True
        begun = {one.rank for one in part.workers if one.since < index}
        if len(begun) < (1 if part.elastic else part.ranks):
            return False
        return not part.line or any(
            event.fields["of"] == part.number and FIRST_LINE in event.fields["line"]
            for at, event in self.facts.of_kind("printed")
            if at < index
        )

    def ended_well(self, part: Part, index: int) -> bool:
        """Return whether the last workers of all ranks of a role had ended with 0."""
        lives = [part.lives(rank)[-1:] for rank in range(part.ranks)]
        if part.elastic:  # its last round may have had fewer ranks
            return any(last and last[0].status == 0 and last[0].died < index for last in lives)
        return all(last and last[0].status == 0 and last[0].died < index for last in lives)

    def struck_below(self, index: int) -> bool:
        """Return whether something below the workers was hit before an event."""
        return any(
            not isinstance(event.fields["target"], int) and event.fields["fault"] != "signal"
            for at, event in self.facts.of_kind("fault")
            if at < index
        )

    def unheard(self, worker: Process) -> bool:
        """Return whether a worker's node was cut off, or lost, before the runner heard of it."""
        since = self.facts.history[worker.since].time
        cut = ("fault", "target"), ("lost", "node")
        times = {
            kind: event.time - since
            for kind, host in cut
            for _, event in self.facts.of_kind(kind)
            if event.fields[host] == worker.host and event.time >= since
        }
        return "lost" in times and min(times.values()) <= HEARD_AFTER

    def signals(self, index: int) -> int:
        """Return how many signals processes of dsrun were sent by others before an event."""
        found = (one for at, one in self.facts.of_kind("fault") if at < index)
        return sum(
            one.fields["fault"] == "signal" and not isinstance(one.fields["target"], int)
            for one in found
        )

    def told_to_stop(self, part: Part, index: int) -> bool:
        """Return whether a guard or a node launcher of a role was sent a signal before an event."""
        hosts = {one.host for one in part.workers}
        return any(
            event.fields["fault"] == "signal" and event.host in hosts
            for at, event in self.facts.of_kind("fault")
            if at < index
        )

    def failed(self, part: Part, index: int) -> bool:
        """Return whether a worker of a role had ended before an event, and was not told to."""
        return any(
            one.died < index and not one.sent(STOP_SIGNALS) and (one.status or part.ends == "never")
            for one in part.workers
        )


def _part(number: int, role: dict[str, Any], workers: list[Process]) -> Part:
    return Part(
        number=number,
        name=role["name"],
        ends=role["ends"],
        after=tuple(role["after"]),
        line=role["line"],
        restarts=role["restarts"],
        ranks=role["ranks"],
        elastic=bool(role.get("elastic")),
        workers=workers,
    )


def starts_in_order(roles: Roles) -> Iterator[Finding]:
    """No role starts before those that it waits for are ready."""
    for part in roles.parts.values():
        for worker in part.workers[:1]:
            for name in part.after:
                if not roles.ready(roles.parts[name], worker.since):
                    yield _about(worker, worker.since, f"{part.name} starts before {name} is ready")


def waits_are_told(roles: Roles) -> Iterator[Finding]:
    """Who waits for another role for long is told."""
    lines = [
        event.fields["line"]
        for _, event in roles.facts.of_kind("shown")
        if event.fields["rank"] < 0
    ]
    for part in roles.parts.values():
        for name in part.after:
            first, waits = roles.parts[name].workers[:1], part.workers[:1]
            if not first or not waits:
                continue
            began = roles.facts.history[first[0].since].time
            seconds = roles.facts.history[waits[0].since].time - began
            told = any(part.name in line and "wait" in line for line in lines)
            still = roles.struck_below(waits[0].since)  # the runner did not know of the time
            if seconds > TOLD_AFTER and not told and not still:
                yield Finding(waits[0].since, f"{part.name} waited for {name} for {seconds:g} s")


def stops_in_order(roles: Roles) -> Iterator[Finding]:
    """A role is stopped after those that use it, unless it has failed, or was told to, itself."""
    for part in roles.parts.values():
        for worker in part.workers:
            for stop in worker.sent(STOP_SIGNALS)[:1]:
                if roles.struck_below(stop.at) or roles.signals(stop.at) > 1:
                    continue
                if roles.told_to_stop(part, stop.at):
                    continue
                if roles.failed(part, stop.at):
                    continue
                for user in roles.users(part.name):
                    for other in user.workers:
                        if other.lives_at(stop.at) and other.since < stop.at:
                            yield _about(worker, stop.at, f"stopped before {user.name}")


def restarts_have_causes(roles: Roles) -> Iterator[Finding]:
    """A role starts again only after a failure, and as often as it may.

    A start on nodes of which one is lost before the runner has heard of it does not count.
    """
    for part in roles.parts.values():
        for rank in () if part.elastic else range(part.ranks):
            lives = part.lives(rank)
            known = [one for one in lives if part.all_begun(one.round) and not roles.unheard(one)]
            if len(known) > 1 + max(0, part.restarts):
                yield _about(lives[-1], lives[-1].since, f"life {len(lives)} of {part.name}")
            for one in lives[1:]:
                hit = roles.struck_below(one.since) or roles.signals(one.since)
                if not hit and not roles.failed(part, one.since):
                    yield _about(one, one.since, f"{part.name} starts again without a failure")


def success_is_true(roles: Roles) -> Iterator[Finding]:
    """With exit code 0 a role that ends the job has ended well, and all that it waits for."""
    if roles.facts.exit_code != 0 or roles.facts.report.get("signal"):
        return
    end = len(roles.facts.history)
    ended = {one.name: roles.ended_well(one, end) for one in roles.parts.values()}
    for part in roles.parts.values():
        if part.ends == "wait" and not ended[part.name]:
            yield Finding(-1, f"{part.name} has not ended well, exit code 0")
    ends_it = [ended[one.name] for one in roles.parts.values() if one.ends == "job"]
    if ends_it and not any(ends_it):
        yield Finding(-1, "no role that ends the job has ended well, exit code 0")


def failures_have_causes(roles: Roles) -> Iterator[Finding]:
    """A job in which nothing goes wrong ends with 0, and no service outlives it."""
    code = roles.facts.exit_code
    ended = [one for part in roles.parts.values() for one in part.workers if one.status]
    wrong = [one for one in ended if not one.sent((*STOP_SIGNALS, 9))]
    end = len(roles.facts.history)
    wrong += [
        one for part in roles.parts.values() if roles.failed(part, end) for one in part.workers
    ]
    late = any(part.line for part in roles.parts.values())
    if code and not wrong and not late and roles.facts.first("fault") is None:
        yield Finding(-1, f"exit code {code} without a fault")


def no_service_outlives_the_job(roles: Roles) -> Iterator[Finding]:
    """No worker lives once the runner has ended by itself."""
    for index, event in roles.facts.of_kind("exit"):
        if event.fields["code"] < 0 or roles.struck_below(index) or roles.signals(index) > 2:
            continue
        for worker in roles.facts.workers:
            if worker.lives_at(index):
                yield _about(worker, index, "lives after the end of the job")


def codes_agree(roles: Roles) -> Iterator[Finding]:
    """Exit code and report agree, and the code is that of the role that has failed first."""
    report = roles.facts.report
    for index, event in roles.facts.of_kind("exit"):
        if report and event.fields["code"] != report.get("exit_code"):
            yield Finding(index, f"exit code {event['code']}, in the report {report['exit_code']}")
    sections = report.get("roles", {})
    for name in (report.get("role"),) if report.get("cause") == "failure" else ():
        code = (sections[name]["report"] or {}).get("exit_code")
        if code != report["exit_code"]:
            yield Finding(-1, f"exit code {report['exit_code']}, that of {name} is {code}")


def _about(worker: Process, index: int, text: str) -> Finding:
    return Finding(index, f"{worker}: {text}", worker.host, worker.rank)


RULES: tuple[Callable[[Roles], Iterator[Finding]], ...] = (
    *(starts_in_order, waits_are_told, stops_in_order, restarts_have_causes, success_is_true),
    *(failures_have_causes, no_service_outlives_the_job, codes_agree),
)


def problems(history: Sequence[Event]) -> Iterator[Problem]:
    """Return what is wrong in a history of a job of roles."""
    for part in hold.jobs(history):
        facts = Facts(part)
        found = [*_of(facts, OF_EACH), *facts.output]
        yield from (one for one in found if not exceptions.excuse(facts, one))
    facts = Facts(history)
    yield from (one for one in _of(facts, OF_THE_JOB) if not exceptions.excuse(facts, one))
    roles = Roles(facts)
    for rule in RULES:
        for one in rule(roles):
            problem = facts.problem(f"roles_{rule.__name__}", one.text, one.at, one.host, one.rank)
            if not exceptions.excuse(facts, problem._replace(rule=rule.__name__)):
                yield problem


def _of(facts: Facts, rules: Sequence[Callable[[Facts], Iterator[Finding]]]) -> Iterator[Problem]:
    for rule in rules:
        for one in rule(facts):
            yield facts.problem(rule.__name__, one.text, one.at, one.host, one.rank)
