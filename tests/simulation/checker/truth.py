"""Whether the report tells the truth: here the faults of the world are known.

A fault is an event `fault`; its `target` is a rank, a role of dsrun's own processes (on the event's
host), `output` (the reader of dsrun's output), or the name of a host. A signal has its `number`.
Each fault that may end a job is a candidate for the cause that the report names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .facts import KILL, OWN, STOP_SIGNALS, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..history import Event
    from .facts import Facts, Problem, Process
MOMENT = 0.5
"""Seconds within which either of two faults may be the first."""

PATIENCE = 9.0
"""Seconds, beyond the grace, for which a node may be silent as its round ends."""

EXPLAINED = 1.0 + MOMENT
"""Seconds from a failure within which the loss of a node counts as its cause."""

ENGINE = "mpirun ended "
"""With these words begins why a job has ended that has lost its engine."""

ENDING = (1, 2, 15)
"""HUP, INT and TERM end a job when dsrun gets them."""


class Candidate(NamedTuple):
    """A fault as the possible cause of a job's end.

    Attributes:
        at: the index of the fault.
        cause: as in the report's JSON.
        place: the rank, the host or the number of the signal that the report has to name; None if
            any may be named.
        earliest, latest: when it has its effect.
        certain: whether it has one in any case.
    """

    at: int
    cause: str
    place: object
    earliest: float
    latest: float
    certain: bool


def what(event: Event) -> str:
    """Return the kind of target of a fault."""
    target = event.fields.get("target")
    if isinstance(target, int):
        return "worker"
    return str(target) if target in {*OWN, "output"} else "host"


def host_of(event: Event) -> str:
    """Return the host that a fault hits, "" for none."""
    return str(event.fields["target"]) if what(event) == "host" else event.host


def healed(facts: Facts, index: int) -> float:
    """Return when a fault was undone, infinity for never.

    A cable that is mended is mended in both directions.
    """
    fault = facts.history[index]
    cut = str(fault.fields.get("what")).startswith("cut")
    names = ("fault", "target") if cut else ("fault", "target", "what")
    for number, event in facts.of_kind("healed"):
        same = all(event.fields.get(name) == fault.fields.get(name) for name in names)
        if number > index and same and event.host == fault.host:
            return event.time
    return float("inf")


# -- what each fault may cause ----------------------------------------------------------------


def _runner_still(facts: Facts, since: float, until: float) -> bool:
    """Return whether the runner stood still between these: what it learns later has no time."""
    return any(
        one.time <= until and healed(facts, index) >= since
        for index, one in facts.of_kind("fault")
        if one.fields["fault"] in {"freeze", "suspend"} and what(one) == "runner"
    )


def _follows(event: Event) -> bool:
    """Return whether a fault follows of another one: an engine ends what it has started."""
    return event.fields.get("by") == "engine"


def _engine_was_killed(facts: Facts, index: int) -> bool:
    """Return whether the engine was killed before an event."""
    killed = (number for number, one in facts.of_kind("fault") if what(one) == "engine")
    return any(number < index for number in killed)


def _none(_facts: Facts, _index: int, _event: Event) -> Iterator[Candidate]:
    """It ends no job."""
    yield from ()


def _ends_worker(facts: Facts, index: int, event: Event) -> Iterator[Candidate]:
    """A worker ends by itself, unless it was told to end before."""
    worker = _hit(facts, index, event)
    if worker is None or not worker.status or worker.ended_at > facts.over[1]:
        return
    if worker.sent((*STOP_SIGNALS, KILL)):
        return
    soon = [
        number for number, event in facts.of_kind("fault") if event.time <= worker.ended_at + MOMENT
    ]
    seen, at = worker.host not in hurt(facts, max(soon, default=0) + 1), worker.ended_at
    yield Candidate(index, "failure", worker.rank, at, at, seen)


def _hit(facts: Facts, index: int, event: Event) -> Process | None:
    """Return the worker that a fault hits: it lives, or has ended in this very instant."""
    last = [
        one for one in facts.workers if one.rank == event.fields["target"] and one.since < index
    ]
    return last[-1] if last and last[-1].ended_at >= event.time else None


def _fails_to_start(_facts: Facts, index: int, event: Event) -> Iterator[Candidate]:
    """A worker cannot be started."""
    yield Candidate(index, "failure", event.fields["target"], event.time, float("inf"), False)


def _hangs(_facts: Facts, index: int, event: Event) -> Iterator[Candidate]:
    """The job may be ended because it makes no progress."""
    yield Candidate(index, "no progress", None, event.time, float("inf"), False)


def _silences(facts: Facts, index: int, event: Event) -> Iterator[Candidate]:
    """A node is not heard from any more; if that is short, nobody notices."""
    lease = facts.asked("lease", 0.0)
    if event.fields.get("what") == "cut and reset":
        yield Candidate(index, "lost", host_of(event), event.time, float("inf"), False)
        return
    for_good, elastic = event.fields["fault"] == "power", bool(facts.asked("elastic"))
    lasted = float("inf") if for_good else healed(facts, index) - event.time
    # A node of a round that ends is given up if it does not stop its workers in time.
    short = min(lease / 2, facts.asked("grace", 0.0) + PATIENCE) if elastic else lease / 2
    if lasted < short:
        if not any(one.host == host_of(event) and one.since < index for one in facts.workers):
            yield from _may_end_node(facts, index, event)  # it could not be reached
        return
    latest = event.time + 1.5 * lease
    certain = lasted >= 1.5 * lease and latest < facts.over[1]
    certain = certain and not _runner_still(facts, event.time, latest)
    used = any(one.host == host_of(event) and one.lives_at(index) for one in facts.workers)
    yield Candidate(index, "lost", host_of(event), event.time, latest, certain and used)


def _silences_all(facts: Facts, index: int, event: Event) -> Iterator[Candidate]:
    """The nodes may take the runner for dead, which they have heard a sixteenth of a lease before.

    It forgives them what it has not heard meanwhile.
    """
    early = not any(one.since < index for one in facts.workers)
    if early or healed(facts, index) - event.time >= 0.9 * facts.asked("lease", 0.0):
        yield Candidate(index, "lost", None, event.time, float("inf"), False)


def _ends_node(facts: Facts, index: int, event: Event) -> Iterator[Candidate]:
    """The control line of a node ends, which is noticed at once."""
    used = any(one.host == event.host and one.lives_at(index) for one in facts.workers)
    certain = used and event.host not in hurt(facts, index) and not _follows(event)
    certain = certain and not _runner_still(facts, event.time, event.time + MOMENT)
    yield Candidate(index, "lost", event.host, event.time, event.time, certain)


def _may_end_node(_facts: Facts, index: int, event: Event) -> Iterator[Candidate]:
    """A node may be lost."""
    yield Candidate(index, "lost", host_of(event), event.time, float("inf"), False)


def _may_end_any(_facts: Facts, index: int, event: Event) -> Iterator[Candidate]:
    """A node may be left out: this one, or those that differ from it."""
    yield Candidate(index, "lost", None, event.time, float("inf"), False)


def _noticed(facts: Facts, index: int, event: Event) -> Iterator[Candidate]:
    """A worker ends as it misses another one, if there is a reason for that."""
    worker = facts.live_worker(event.fields["rank"], index)
    others = [one for one in facts.workers if worker is not None and one.round == worker.round]
    struck = any(number < index for number, _ in facts.of_kind("fault"))
    if struck or any(one.died < index for one in others):
        place = event.fields["rank"]
        yield Candidate(index, "failure", place, event.time, float("inf"), False)


def _spoils_node(facts: Facts, index: int, event: Event) -> Iterator[Candidate]:
    """A node may be lost, or not be able to start a worker."""
    yield from _may_end_node(facts, index, event)
    yield Candidate(index, "failure", None, event.time, float("inf"), False)


def _is_unheard(facts: Facts, host: str) -> bool:
    """Return whether what a node says may come too late to tell why it has left."""
    slow = {"stall", "cut", "delay"}
    faults = (event for _, event in facts.of_kind("fault") if what(event) == "host")
    return any(event.fields["fault"] in slow and host_of(event) == host for event in faults)


def _is_met(worker: Process, event: Event) -> bool:
    """Return whether a worker runs long enough for a signal to its node to mean something."""
    return worker.ended_at > event.time + MOMENT or bool(worker.sent((*STOP_SIGNALS, KILL)))


def _signals_job(facts: Facts, index: int, event: Event) -> Iterator[Candidate]:
    """A signal ends the job, or is passed on to the workers, which may die of it."""
    if _follows(event) and _engine_was_killed(facts, index):
        yield Candidate(index, "lost", None, event.time, float("inf"), False)
        return
    number = event.fields.get("number", 15)
    if what(event) in {"launcher", "guard"} and not any(
        one.host == event.host and one.since < index for one in facts.workers
    ):  # it leaves, as nothing runs there yet
        yield Candidate(index, "lost", event.host, event.time, float("inf"), False)
    if number in ENDING:
        hosts = {event.host, host_of(event)}
        work = any(
            one.lives_at(index)
            and (what(event) == "runner" or (one.host in hosts and _is_met(one, event)))
            for one in facts.workers
        )
        if what(event) != "runner" and _is_unheard(facts, event.host):
            yield Candidate(index, "lost", event.host, event.time, float("inf"), False)
        until = event.time + MOMENT
        near = [n for n, one in enumerate(facts.history) if one.time <= until]
        known = event.host not in hurt(facts, near[-1] + 1)
        still = _runner_still(facts, event.time, until)
        certain = work and until < facts.over[1] and known and not still and not _follows(event)
        yield Candidate(index, "signal", number, event.time, event.time, certain)
    else:
        yield Candidate(index, "failure", None, event.time, float("inf"), False)


def _ends_output(_facts: Facts, index: int, event: Event) -> Iterator[Candidate]:
    """Nobody reads what dsrun prints; that is noticed when it prints."""
    yield Candidate(index, "broken pipe", None, event.time, float("inf"), False)


FAULTS: dict[tuple[str, str], Callable[[Facts, int, Event], Iterator[Candidate]]] = {
    ("crash", "worker"): _ends_worker,
    ("kill", "worker"): _ends_worker,
    ("signal", "worker"): _ends_worker,
    ("refuse", "worker"): _fails_to_start,
    ("early", "worker"): _none,
    ("hang", "worker"): _hangs,
    ("freeze", "worker"): _hangs,
    ("kill", "launcher"): _ends_node,
    ("kill", "guard"): _ends_node,
    ("kill", "lane"): _may_end_node,
    ("kill", "agent"): _may_end_node,
    ("kill", "engine"): _may_end_any,
    ("freeze", "launcher"): _silences,
    ("freeze", "guard"): _may_end_node,
    ("freeze", "lane"): _silences,
    ("signal", "runner"): _signals_job,
    ("signal", "launcher"): _signals_job,
    ("signal", "guard"): _signals_job,
    ("signal", "lane"): _signals_job,
    ("signal", "host"): _signals_job,
    ("kill", "runner"): _silences_all,
    ("freeze", "runner"): _silences_all,
    ("suspend", "runner"): _none,
    ("kill", "logs"): _none,
    ("freeze", "logs"): _none,
    ("cut", "host"): _silences,
    ("power", "host"): _silences,
    ("freeze", "host"): _silences,
    ("stall", "host"): _silences,
    ("refuse", "host"): _may_end_node,
    ("unfit", "host"): _may_end_any,
    ("remove", "host"): _may_end_node,
    ("reset", "host"): _may_end_node,
    ("garbage", "host"): _spoils_node,
    ("close", "output"): _ends_output,
    ("stall", "output"): _none,
    **{(name, "host"): _none for name in ("delay", "slow", "clock", "chatty")},
    **{(name, "host"): _spoils_node for name in ("disk", "port", "stuck")},
}
"""What each fault may cause, by its name and what it hits. A new fault needs a row."""


def hurt(facts: Facts, index: int) -> list[str]:
    """Return the hosts of which dsrun may have lost sight by an event, the first one first."""
    silent = (_silences, _ends_node, _may_end_node)
    return [
        host_of(one)
        for number, one in facts.of_kind("fault")
        if number < index and FAULTS.get((one.fields["fault"], what(one))) in silent
    ]


def candidates(facts: Facts) -> list[Candidate]:
    """Return the faults before the end that may be its cause."""
    found: list[Candidate] = []
    for index, event in facts.of_kind("fault"):
        if index < facts.over[0]:
            found += FAULTS.get((event.fields["fault"], what(event)), _none)(facts, index, event)
    for index, event in facts.of_kind("noticed"):
        if index < facts.over[0]:
            found += _noticed(facts, index, event)
    return found


# -- rules ------------------------------------------------------------------------------------


class Named(NamedTuple):
    """The cause in a report; `place` is as that of a candidate."""

    cause: str
    place: object

    def fits(self, one: Candidate) -> bool:
        """Return whether this is that fault."""
        if self.cause == "refused":
            return one.cause in {"lost", "signal"}
        any_place = one.place is None or self.place in {None, ""}
        return one.cause == self.cause and (any_place or one.place == self.place)


def named(facts: Facts) -> Named | None:
    """Return the cause that the report names, None if there is none."""
    report = facts.report
    cause = report.get("cause", "refused") if report else "none"
    match cause:
        case "none" | "internal error":
            return None
        case "failure":
            return Named(cause, report["first_failure"]["rank"])
        case "lost":
            return Named(cause, report["lost"][0]["host"] if report["lost"] else None)
        case _:
            return Named(cause, report.get("signal"))


def known_faults(facts: Facts) -> Iterator[Finding]:
    """Every fault is in the table."""
    for index, event in facts.of_kind("fault"):
        if (event.fields["fault"], what(event)) not in FAULTS:
            yield Finding(index, f"{event['fault']} of {what(event)}: not in the table")


def faultless_ends_well(facts: Facts) -> Iterator[Finding]:
    """A job without faults that ends by itself ends with 0."""
    faults = any(index < facts.over[0] for index, _ in facts.of_kind("fault"))
    if not faults and facts.exit_code not in {0, None}:
        yield Finding(facts.over[0], f"exit code {facts.exit_code} without a fault")


def cause_is_a_fault(facts: Facts) -> Iterator[Finding]:
    """The cause in the report is a fault before the end; one after it changes nothing."""
    cause = named(facts)
    if cause is not None and not any(map(cause.fits, candidates(facts))):
        yield Finding(facts.over[0], f"{cause.cause} of {cause.place!r}: no fault has caused it")


def cause_is_named(facts: Facts) -> Iterator[Finding]:
    """A fault that has certainly ended the job is not passed over in silence."""
    if named(facts) is not None or not facts.report or facts.asked("elastic"):
        return
    for one in candidates(facts):
        if one.certain:
            yield Finding(one.at, f"{one.cause} of {one.place!r} is not in the report")


def kill_is_told(facts: Facts) -> Iterator[Finding]:
    """A node that is lost by nothing but the kill of its node launcher is reported as that.

    An engine may have ended because of it.
    """
    faults = [one for one in facts.of_kind("fault") if one[0] < facts.over[0]]
    if len(faults) != 1 or not facts.report:
        return
    ((index, event),) = faults
    if (event.fields["fault"], what(event)) != ("kill", "launcher"):
        return
    for lost in facts.report.get("lost", ()):
        told = "killed" in lost["reason"] or lost["reason"].startswith(ENGINE)
        if lost["host"] == event.host and not told:
            yield Finding(index, f"the loss of {event.host} is told as: {lost['reason']}")


def first_cause(facts: Facts) -> Iterator[Finding]:
    """The cause in the report is the first fault that had an effect."""
    for one in earlier(facts):
        cause = named(facts)
        assert cause is not None
        text = f"{one.cause} of {one.place!r} came before {cause.cause} of {cause.place!r}"
        yield Finding(one.at, text)


def earlier(facts: Facts, moment: float = 0.0) -> list[Candidate]:
    """Return the faults that had their effect so long before the one that is named.

    In an elastic job lost nodes are survived, and failures before its last round were.
    """
    cause, elastic = named(facts), facts.asked("elastic")
    if cause is None or (elastic and cause.cause == "lost"):
        return []
    found = candidates(facts)
    if elastic:
        lost = [one.earliest for one in found if one.cause == "lost"]
        found = [one for one in found if not _may_be_survived(facts, one, lost)]
    since = _last_round_began(facts) if elastic else 0.0
    first = min((one.earliest for one in found if cause.fits(one)), default=0.0)
    return [
        one
        for one in found
        if one.certain and not cause.fits(one) and since <= one.latest < first - moment
        if not (elastic and one.cause == "lost")
    ]


def _may_be_survived(facts: Facts, one: Candidate, lost: Sequence[float]) -> bool:
    """Return whether an elastic job goes on after a failure; `lost` is when it loses nodes."""
    caused = any(time <= one.latest + EXPLAINED for time in lost)
    return one.cause == "failure" and (caused or bool(facts.asked("max_restarts")))


def _last_round_began(facts: Facts) -> float:
    """Return when the workers of the last round began."""
    last = [one for one in facts.workers if one.round == facts.last_round]
    return min((facts.history[one.since].time for one in last), default=0.0)


RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    *(known_faults, faultless_ends_well, cause_is_a_fault, cause_is_named),
    *(kill_is_told, first_cause),
)


def problems(facts: Facts) -> Iterator[Problem]:
    """Return where the report is not true; the rule's name is that of the function."""
    for rule in RULES:
        for one in rule(facts):
            yield facts.problem(rule.__name__, one.text, one.at, one.host, one.rank)
