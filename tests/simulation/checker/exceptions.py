"""What a fault excuses: each exception is listed here, and is counted where it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from . import truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..history import Event
    from .facts import Facts, Problem

GRACE = ("stop_before_kill", "grace_from_below", "grace_from_above")
DONE_FOR = ("kill", "freeze")


class Exemption(NamedTuple):
    """An exception: problems of these rules are none if `holds` says so."""

    name: str
    rules: tuple[str, ...]
    holds: Callable[[Facts, Problem], bool]


SLOW = 1.0
"""Seconds that a slow cable adds, by which the clock of its host may be known wrongly."""


def _faults(facts: Facts, *names: str, until: float) -> Iterator[tuple[Event, str]]:
    """Return the faults of these names until a time, each with the kind of what it hit."""
    for _, event in facts.of_kind("fault"):
        if event.fields["fault"] in names and event.time <= until:
            yield event, truth.what(event)


def _struck(facts: Facts, host: str, *roles: str, until: float) -> bool:
    """Return whether one of these processes of a host was killed or stopped."""
    found = _faults(facts, *DONE_FOR, until=until)
    return any(event.host == host and what in roles for event, what in found)


def _cut_off(facts: Facts, host: str, until: float) -> bool:
    """Return whether a host was silent or without power for some time, or lost its line."""
    kinds = ("cut", "power", "freeze", "stall", "garbage", "reset")
    found = _faults(facts, *kinds, until=until)
    return any(what == "host" and event.fields["target"] == host for event, what in found)


def _lost(facts: Facts, problem: Problem) -> bool:
    """Return whether the node was lost, or may have been."""
    until = facts.over[1]
    frozen = any(what == "runner" for _, what in _faults(facts, "freeze", until=until))
    hosts = [one.host for one in facts.workers if one.rank == problem.rank]
    return frozen or any(
        _struck(facts, host, "launcher", "guard", "lane", until=until)
        or _cut_off(facts, host, until)
        for host in hosts
    )


def _stood_still(facts: Facts, problem: Problem) -> bool:
    """Return whether a whole host stood still, its workers as well: this one, or the other."""
    found = [
        event.host for event, what in _faults(facts, "freeze", until=float("inf")) if what == "host"
    ]
    return problem.host in found or (problem.rule != "grace_from_above" and bool(found))


def _no_grace(facts: Facts, problem: Problem) -> bool:
    """Return whether a node gives no grace: its launcher, guard or torch's agent was killed."""
    roles = "launcher", "guard", "lane", "agent"
    grace = facts.asked("grace", 0.0) if problem.rule == "grace_from_above" else 0.0
    struck = _struck(facts, problem.host, *roles, until=problem.time + grace + 2.0)
    return struck or _cut_off(facts, problem.host, problem.time)


def _short_grace(facts: Facts, problem: Problem) -> bool:
    """Return whether a node of an elastic job stops by itself, for which it has less time."""
    found = _faults(facts, "kill", "freeze", until=problem.time)
    return bool(facts.asked("elastic")) and any(what == "runner" for _, what in found)


def _runner_killed(facts: Facts, _problem: Problem | None = None) -> bool:
    """Return whether the runner was killed: nobody is left to report anything."""
    found = _faults(facts, "kill", until=facts.over[1])
    return any(what == "runner" for _, what in found)


def _both(facts: Facts, host: str, name: str) -> bool:
    """Return whether this has happened to the guard and the node launcher of a host.

    Until the job is over; without a runner the node stops its workers after that.
    """
    until = float("inf") if _runner_killed(facts) else facts.over[1]
    found = [what for event, what in _faults(facts, name, until=until) if event.host == host]
    return {"guard", "launcher"} <= {*found}


def _told(facts: Facts, host: str) -> bool:
    """Return whether the report says of a host that something may be left there."""
    texts = [*facts.report.get("left", ()), *facts.report.get("unseen", ())]
    return any(host in text for text in texts)


def _said(facts: Facts, host: str) -> bool:
    """Return whether the report, or a line while the job ran, says so."""
    killed = f"{host}: killed leftovers of an earlier node launcher of this job: "
    words = f"left over on {host}: ", f"may still be running on {host}: ", killed
    shown = (event.fields["line"] for _, event in facts.of_kind("shown"))
    return _told(facts, host) or any(one in line for line in shown for one in words)


def _both_killed(facts: Facts, problem: Problem) -> bool:
    """Return whether guard and node launcher are gone, and the report says so if there is one."""
    host = problem.host
    both = _both(facts, host, "kill") or _both(facts, host, "freeze")
    return both and (_told(facts, host) or _runner_killed(facts))


def _unguarded(facts: Facts, problem: Problem) -> bool:
    """Return whether a node launcher stands still for ever, and its guard was killed."""
    found = [(event, what) for event, what in _faults(facts, "kill", "freeze", until=float("inf"))]
    here = {(event.fields["fault"], what) for event, what in found if event.host == problem.host}
    healed = any(
        event.host == problem.host
        and event.fields.get("what", "freeze launcher") == "freeze launcher"
        for _, event in facts.of_kind("healed")
    )
    return {("kill", "guard"), ("freeze", "launcher")} <= here and not healed


def _both_stopped(facts: Facts, problem: Problem) -> bool:
    """Return whether a node launcher stood still, and its guard as well or was killed."""
    found = _faults(facts, *DONE_FOR, until=facts.over[1])
    here = {(event.fields["fault"], what) for event, what in found if event.host == problem.host}
    guard = {("freeze", "guard"), ("kill", "guard")} & here
    return ("freeze", "launcher") in here and bool(guard) and _said(facts, problem.host)


def _just_healed(facts: Facts, problem: Problem) -> bool:
    """Return whether a node launcher that stood still began a worker, and ended it at once."""
    return any(
        one.ended_at < problem.time + truth.MOMENT
        and _struck(facts, one.host, "launcher", until=problem.time)
        for one in facts.workers
        if one.since == problem.at
    )


def _cut_while_suspended(facts: Facts, problem: Problem) -> bool:
    """Return whether the host was cut off while the runner was suspended, which it waits out."""
    began = [
        (index, event.time)
        for index, event in facts.of_kind("fault")
        if event.fields["fault"] == "suspend"
    ]
    cuts = [
        event.time
        for event, _ in _faults(facts, "cut", until=problem.time)
        if event.fields["target"] == problem.host
    ]
    met = any(start <= cut <= truth.healed(facts, at) for at, start in began for cut in cuts)
    return met and _said(facts, problem.host)


def _stuck(facts: Facts, problem: Problem) -> bool:
    """Return whether a process could not be ended, and the report says so."""
    found = _faults(facts, "stuck", "disk", until=problem.time)
    here = any(event.fields["target"] == problem.host for event, _ in found)
    return here and any(problem.host in text for text in facts.report.get("left", ()))


def _moment(facts: Facts, _problem: Problem) -> bool:
    """Return whether all happened at about the same time, as far as clocks of hosts are known."""
    return not truth.earlier(facts, _a_moment(facts))


def _a_moment(facts: Facts) -> float:
    """Return the seconds within which either of two faults may be the first."""
    slow = any(True for _ in _faults(facts, "delay", until=facts.over[1]))
    return truth.MOMENT + SLOW * slow


def _signal_while_stopping(facts: Facts, _problem: Problem) -> bool:
    """Return whether a signal, or nobody reading, ended a job that was being stopped already.

    It was if the report's first failure or loss may be what came first. What certainly came first
    may be another fault of that moment, which the report need not have: a worker that dies between
    the end of the engine and the stop on its node is one of those that were told to stop.
    """
    report, first = facts.report, truth.earlier(facts)[0]
    stopped_for = [
        *(truth.Named("failure", one["rank"]) for one in report["failures"][:1]),
        *(truth.Named("lost", one["host"]) for one in report["lost"][:1]),
    ]
    until = first.earliest + _a_moment(facts)
    soon = [one for one in truth.candidates(facts) if one.earliest <= until]
    taken = report["cause"] in {"signal", "broken pipe"}
    return taken and any(cause.fits(one) for cause in stopped_for for one in soon)


def _signals(facts: Facts, until: float, number: int = 0) -> int:
    found = _faults(facts, "signal", until=until)
    own = [event for event, what in found if what in {"runner", "launcher", "guard"}]
    return sum(not number or event.fields.get("number") == number for event in own)


def _interrupted_again(facts: Facts, problem: Problem) -> bool:
    return _signals(facts, problem.time, 2) > 1


def _left_at_once(facts: Facts, _problem: Problem) -> bool:
    return _signals(facts, facts.over[1], 2) > 2


def _no_grace_wanted(facts: Facts, problem: Problem) -> bool:
    found = _faults(facts, "signal", until=problem.time)
    return any(event.fields.get("what") == "stop now" for event, _ in found)


def _another_signal(facts: Facts, problem: Problem) -> bool:
    return _signals(facts, problem.time) > 0


def _not_started(facts: Facts, problem: Problem) -> bool:
    """Return whether a worker of the same host could not be started."""
    failures = facts.report.get("failures", ())
    return any(not one["pid"] and one["host"] == problem.host for one in failures)


def _stopped(facts: Facts, problem: Problem) -> bool:
    """Return whether the host, or its node launcher, stood still at the report, or was cut off."""
    until = facts.over[1]
    struck = _struck(facts, problem.host, "launcher", "guard", until=until)
    return struck or _cut_off(facts, problem.host, until)


def _holder_lost(facts: Facts, problem: Problem) -> bool:
    """Return whether the host, or its node launcher, stood still before, or was cut off.

    A line that fails is noticed at once, as is the end of an engine, which gives workers grace.
    """
    until = problem.time - truth.MOMENT
    struck = _struck(facts, problem.host, "launcher", "guard", until=until)
    failed = _faults(facts, "reset", "garbage", until=problem.time)
    here = any(event.fields["target"] == problem.host for event, _ in failed)
    ended = any(
        event.host == problem.host and event.fields.get("by")
        for event, _ in _faults(facts, "kill", until=problem.time)
    )
    return struck or here or ended or _cut_off(facts, problem.host, until)


def _in_background(facts: Facts, problem: Problem) -> bool:
    """Return whether this is a process that the job may leave after its success."""
    here = [one for one in facts.workers if one.host == problem.host]
    well = facts.asked("background") and all(one.status == 0 for one in here)
    return bool(well) and "child" in problem.text


def _too_early(facts: Facts, _problem: Problem) -> bool:
    """Return whether a signal has killed the runner before any worker was started."""
    event = facts.first("exit")
    killed = event is not None and bool(event.fields.get("signalled"))
    return killed and not facts.workers and _signals(facts, facts.over[1]) > 0


def _unread(facts: Facts, problem: Problem) -> bool:
    """Return whether the reader of the output had gone, or stood still at the end of a round."""
    closed = any(what == "output" for _, what in _faults(facts, "close", until=facts.over[1]))
    stalled = [
        index
        for index, event in facts.of_kind("fault")
        if (event.fields["fault"], truth.what(event)) == ("stall", "output")
    ]
    end = problem.time if facts.asked("elastic") else facts.over[1]
    return closed or any(truth.healed(facts, index) > end for index in stalled)


def _taken_back(facts: Facts, problem: Problem) -> bool:
    """Return whether so many failures were taken for the consequence of a lost node."""
    lost = sum(one.cause == "lost" for one in truth.candidates(facts))
    until = [event for event in facts.history[: problem.at + 1] if event.kind == "restart"]
    most: int = facts.asked("max_restarts", 0)
    return len(until) - most <= lost


EXEMPTIONS = (
    Exemption("a lost node may lose the end of its output", ("end_shown", "lines_whole"), _lost),
    Exemption("shards of a lost node go to others", ("shards_once",), _holder_lost),
    Exemption("a killed node launcher gives no grace", GRACE, _no_grace),
    Exemption("a node without its runner gives less grace", ("grace_from_below",), _short_grace),
    Exemption(
        "a killed runner says nothing",
        ("one_report", "one_exit", "codes_agree", "end_shown", "resources_level"),
        _runner_killed,
    ),
    Exemption("guard and launcher killed may leave processes", ("nothing_left",), _both_killed),
    Exemption("a stopped launcher without a guard is left", ("nothing_left",), _unguarded),
    Exemption(
        "guard and launcher stopped leave workers",
        ("one_worker_per_rank", "one_round_at_a_time"),
        _both_stopped,
    ),
    Exemption(
        "a node launcher that stood still ends what it had just begun",
        ("one_worker_per_rank", "one_round_at_a_time"),
        _just_healed,
    ),
    Exemption(
        "a node that is cut off while the runner is suspended does not miss it",
        ("one_worker_per_rank", "one_round_at_a_time"),
        _cut_while_suspended,
    ),
    Exemption("a process that cannot be ended is left", ("nothing_left",), _stuck),
    Exemption("of two faults within a moment either is named", ("first_cause",), _moment),
    Exemption("a signal ends a job that is stopping", ("first_cause",), _signal_while_stopping),
    Exemption("a second Ctrl-C gives no grace", GRACE, _interrupted_again),
    Exemption("a third Ctrl-C waits for nothing", ("end_shown", "nothing_left"), _left_at_once),
    Exemption("a stop at once gives no grace", GRACE, _no_grace_wanted),
    Exemption("another signal is passed on", ("one_stop_signal",), _another_signal),
    Exemption("workers beside one that cannot start have no grace", GRACE, _not_started),
    Exemption("a node that was stopped ends what it had begun", ("report_is_last",), _stopped),
    Exemption("what is left in the background may stay", ("nothing_left",), _in_background),
    Exemption("a signal before dsrun is ready ends it", ("one_report",), _too_early),
    Exemption(
        "a host that stood still is not known to be alive",
        ("one_worker_per_rank", "one_round_at_a_time", "grace_from_above"),
        _stood_still,
    ),
    Exemption("nobody reads the output", ("end_shown", "no_middle_lost", "lines_whole"), _unread),
    Exemption("a lost node's restart is taken back", ("restarts_in_budget",), _taken_back),
)


def excuse(facts: Facts, problem: Problem) -> str:
    """Return the name of the exception for a problem, "" if there is none."""
    fits = (one for one in EXEMPTIONS if problem.rule in one.rules and one.holds(facts, problem))
    return next((one.name for one in fits), "")
