"""The rules for jobs of several roles: a good history, and those that were made wrong by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .checker import check, roles
from .history import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    History = list[Event]

RUNNER, GUARD, LAUNCHER, SERVER, TRAINER = 1, 10, 11, 20, 21


def begun(time: float, pid: int, role: str, parent: int = LAUNCHER, host: str = "n1") -> Event:
    fields = {"pid": pid, "parent": parent, "role": role, "name": role}
    return Event(time, host, "spawned", fields)


def worker(
    time: float, pid: int, of: int, number: int = 1, rank: int = 0, world: int = 1
) -> Iterator[Event]:
    yield begun(time, pid, "helper")
    fields = {"pid": pid, "rank": rank, "world": world, "round": number, "of": of}
    yield Event(time, "n1", "worker", fields)


def ended(time: float, pid: int, status: int = 0, host: str = "n1") -> Event:
    return Event(time, host, "ended", {"pid": pid, "status": status})


def stopped(time: float, pid: int) -> Iterator[Event]:
    yield Event(time, "n1", "signalled", {"pid": pid, "number": 15, "by": LAUNCHER})
    yield ended(time + 0.01, pid, 15)


def printed(time: float, of: int, line: str = "step 0 ") -> Event:
    return Event(time, "n1", "printed", {"rank": 0, "round": 1, "line": line, "of": of})


def asked(number: int) -> Event:
    wanted = {"of": number, "nodes": {"n1": 1}, "elastic": False, "least": 1, "max_restarts": 0}
    wanted |= {"window": 0.0, "grace": 5.0, "lease": 15.0, "background": False, "bound": 100.0}
    return Event(0.0, "login", "job", wanted)


def said(line: str, rank: int = -1, **of: int) -> Event:
    return Event(3.0, "login", "shown", {"rank": rank, "line": line, **of})


def role(name: str, ends: str, after: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    known = {"name": name, "ends": ends, "after": list(after), "line": False, "restarts": -1}
    return {**known, "ranks": 1, "slots": [["n1", 0, 1]], **more}


def ending(code: int = 0, **report: Any) -> Iterator[Event]:
    told = {"exit_code": code, "cause": "none", "role": None, "roles": {}, **report}
    yield Event(3.0, "login", "report", {"report": told})
    yield Event(3.0, "login", "exit", {"code": code, "signalled": False})
    yield ended(3.0, RUNNER, code << 8, "login")
    lists = ("processes", "ports", "files", "strangers_killed")
    yield Event(4.0, "login", "left", {name: [] for name in lists})


def good(**server: Any) -> History:
    """A server, and a trainer that starts once it has printed a line, and ends well."""
    both = [role("server", "never", line=True, **server), role("trainer", "job", ("server",))]
    return [
        Event(0.0, "login", "roles", {"roles": both, "bound": 100.0}),
        *map(asked, range(2)),
        begun(0.0, RUNNER, "runner", 0, "login"),
        begun(0.1, GUARD, "guard", 1),
        begun(0.1, LAUNCHER, "launcher", GUARD),
        *worker(0.2, SERVER, 0),
        printed(0.3, 0),
        *worker(0.4, TRAINER, 1),
        printed(0.5, 1),
        ended(2.0, TRAINER),
        *stopped(2.1, SERVER),
        ended(2.5, LAUNCHER),
        ended(2.5, GUARD),
        said("step 0 ", 0, of=0),
        said("step 0 ", 0, of=1),
        *ending(),
    ]


def without(history: History, kind: str, **fields: Any) -> History:
    at = next(
        n
        for n, one in enumerate(history)
        if one.kind == kind and fields.items() <= one.fields.items()
    )
    return history[:at] + history[at + 1 :]


def changed(history: History, code: int, **report: Any) -> History:
    """Return it with another end."""
    rest = [one for one in history if one.time < 3.0 or one.kind == "shown"]
    return [*rest, *ending(code, **report)]


def with_roles(history: History, *every: dict[str, Any]) -> History:
    """Return it as that of these roles."""
    asked_for = Event(0.0, "login", "roles", {"roles": [*every], "bound": 100.0})
    return [asked_for if one.kind == "roles" else one for one in history]


def late(history: History, seconds: float) -> History:
    """Let all that follows the start of the server come later."""
    return [one._replace(time=one.time + seconds * (one.time > 0.35)) for one in history]


def in_time_order(*events: Event) -> History:
    return sorted([*good(), *events], key=lambda one: one.time)


def stopped_first() -> History:
    history = [one for one in good() if one.fields.get("pid") != SERVER or one.time < 2.0]
    return sorted([*history, *stopped(1.0, SERVER)], key=lambda one: one.time)


def again(*, failed: bool) -> History:
    """The server ends, and is started again; if it has not failed, the launcher stopped it."""
    first = [one for one in good(restarts=1) if one.fields.get("pid") != SERVER or one.time < 1.0]
    end = [ended(1.0, SERVER, 9)] if failed else [*stopped(1.0, SERVER)]
    more = [*end, *worker(1.2, 30, 0, 2), *stopped(2.1, 30)]
    return sorted([*first, *more], key=lambda one: one.time)


def too_often() -> History:
    return [*good()[:1], *again(failed=True)[1:]]


def failed_trainer() -> History:
    """The trainer fails, and the job ends with 0 all the same."""
    failed = ended(2.0, TRAINER, 256)
    return [failed if one == ended(2.0, TRAINER) else one for one in good()]


def no_fault() -> History:
    plain = with_roles(good(), role("server", "never"), role("trainer", "job", ("server",)))
    return changed(plain, 1, cause="role")


def other_code() -> History:
    sections = {"trainer": {"report": {"exit_code": 5}}}
    return changed(good(), 3, cause="failure", role="trainer", roles=sections)


WRONG: dict[str, tuple[Callable[[], History], str]] = {
    "no line": (lambda: without(good(), "printed", of=0), "roles_starts_in_order"),
    "silent wait": (lambda: late(good(), 20.0), "roles_waits_are_told"),
    "server first": (stopped_first, "roles_stops_in_order"),
    "no cause": (lambda: again(failed=False), "roles_restarts_have_causes"),
    "too often": (too_often, "roles_restarts_have_causes"),
    "whole again": (lambda: half_begun(whole=True), "roles_restarts_have_causes"),
    "no success": (failed_trainer, "roles_success_is_true"),
    "no fault": (no_fault, "roles_failures_have_causes"),
    "alive": (lambda: without(good(), "ended", pid=SERVER), "roles_no_service_outlives_the_job"),
    "other code": (other_code, "roles_codes_agree"),
    "two reports": (lambda: [*good(), *ending()], "one_report"),
    "two workers": (
        lambda: in_time_order(*worker(1.0, 31, 0), ended(2.2, 31, 9)),
        "one_worker_per_rank",
    ),
    "lost line": (lambda: without(good(), "shown", of=1), "end_shown"),
}


def lost_at_once() -> History:
    """The server, which may not start again, has a spare as its node is lost while it starts."""
    lost = Event(0.21, "login", "lost", {"node": "n1", "reason": "cut", "survived": False, "of": 0})
    return sorted([*too_often(), lost], key=lambda one: one.time)


def half_begun(*, whole: bool = False) -> History:
    """The server, which may not start again, has two ranks, one of which has begun at first."""
    first = [one for one in good() if one.fields.get("pid") != SERVER]
    both = [*worker(0.2, SERVER, 0, 1, 0, 2), ended(1.0, SERVER, 9)]
    if whole:
        both += [*worker(0.2, 29, 0, 1, 1, 2), *stopped(1.0, 29)]
    for rank, pid in enumerate((30, 31)):
        both += [*worker(1.2, pid, 0, 2, rank, 2), *stopped(2.1, pid)]
    server, trainer = role("server", "never", line=True, ranks=2), role("trainer", "job")
    history = sorted([*first, *both], key=lambda one: one.time)
    return with_roles(history, server, trainer)


@pytest.mark.parametrize("history", [good(), again(failed=True), lost_at_once(), half_begun()])
def test_a_good_history_is_accepted(history: History) -> None:
    assert check(history) == []


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history_is_refused(name: str) -> None:
    make, rule = WRONG[name]
    assert rule in {one.rule for one in check(make())}


def test_each_rule_of_roles_refuses_something() -> None:
    own = {f"roles_{rule.__name__}" for rule in roles.RULES}
    assert own == {rule for _, rule in WRONG.values() if rule.startswith("roles_")}
