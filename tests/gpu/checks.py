"""What comes of a part: checks, each with what was seen. Pure."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Outcome(Enum):
    """How a check, or a part, has ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Check(NamedTuple):
    """One thing that has to be seen.

    Attributes:
        what: it, in words.
        seen: what was seen; of a check that was skipped, why.
    """

    outcome: Outcome
    what: str
    seen: str = ""


def check(what: str, good: bool, seen: object = "") -> Check:
    """Return a check that has passed or failed."""
    return Check(Outcome.PASSED if good else Outcome.FAILED, what, str(seen))


def same(what: str, seen: object, wanted: object) -> Check:
    """Return whether something is as it has to be."""
    good = seen == wanted
    return check(what, good, seen if good else f"{seen!r}, and not {wanted!r}")


def skipped(what: str, why: str) -> Check:
    """Return a check that cannot be made here."""
    return Check(Outcome.SKIPPED, what, why)


def outcome(checks: Iterable[Check]) -> Outcome:
    """Return how a part has ended: it has failed if one check has, or if there is none."""
    found = {one.outcome for one in checks}
    if Outcome.FAILED in found or not found:
        return Outcome.FAILED
    return Outcome.PASSED if Outcome.PASSED in found else Outcome.SKIPPED
