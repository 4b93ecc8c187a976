"""A rule on what the workers of a job print."""

from __future__ import annotations

from ..common.values import NamedTuple

EXPECT = "--expect"
"""The name of the rule of the command line."""


class Rule(NamedTuple):
    """Lines that have to appear, numbers in them, and what follows otherwise.

    Attributes:
        name: what messages call it.
        expect: the regular expression of such a line, as Python writes it.
        within: seconds from the start of the workers to the first such line; 0 for as `every`.
        every: seconds from one such line to the next; 0 for any time.
        finite: the name or number of a group, a number that must be finite; "" for none.
        falls: the name or number of a group, a number that must fall; "" for none.
        over: the number of such lines of one rank after which it must have reached a new low.
        ranks: whose lines count; none for those of all.
        then: what follows, one of `watch_policy.ALERT_ACTIONS`.
    """

    name: str
    expect: str
    within: float = 0.0
    every: float = 0.0
    finite: str = ""
    falls: str = ""
    over: int = 0
    ranks: frozenset[int] = frozenset()
    then: str = "report"
