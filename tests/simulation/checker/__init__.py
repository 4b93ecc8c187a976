"""The checker of histories: did dsrun keep what it promises? Pure.

`safety` has the rules that hold whatever happens, and knows no faults; `truth` compares the report
with the faults; `exceptions` lists what a fault excuses.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from . import exceptions, hold, nodes, roles, safety, truth
from .facts import Facts, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..history import Event

__all__ = ["RULES", "Problem", "check", "check_exceptions"]

RULES = (
    *(rule.__name__ for rule in (*safety.RULES, *truth.RULES, *nodes.RULES)),
    *safety.OUTPUT_RULES,
)
"""The names of all rules."""


def check(history: Sequence[Event]) -> list[Problem]:
    """Return what is wrong in a history, in the order of its events."""
    if any(event.kind == "hold" for event in history):
        return [
            *(one for part in hold.jobs(history) for one in _check_job(part)),
            *_left_elsewhere(history),
            *hold.problems(Facts(history)),
        ]
    if any(event.kind == "roles" for event in history):
        return sorted(roles.problems(history), key=lambda one: (one.at, one.rule))
    return _check_job(history)


def _left_elsewhere(history: Sequence[Event]) -> list[Problem]:
    """Return what is left on nodes that no job has used."""
    facts, used = Facts(history), hold.used(history)
    rule = safety.nothing_left.__name__
    found = [facts.problem(rule, one.text, one.at, one.host) for one in safety.nothing_left(facts)]
    return [one for one in found if one.host not in used and not exceptions.excuse(facts, one)]


def _check_job(history: Sequence[Event]) -> list[Problem]:
    found = [problem for problem, excuse in _judge(history) if not excuse]
    return sorted(found, key=lambda one: (one.at, one.rule))


def check_exceptions(history: Sequence[Event]) -> dict[str, int]:
    """Return how often each exception has excused a problem."""
    return dict(Counter(excuse for _, excuse in _judge(history) if excuse))


def _judge(history: Sequence[Event]) -> list[tuple[Problem, str]]:
    """Return each problem with what excuses it, "" for nothing."""
    facts = Facts(history)
    found = [*safety.problems(facts), *truth.problems(facts), *nodes.problems(facts)]
    return [(problem, exceptions.excuse(facts, problem)) for problem in found]
