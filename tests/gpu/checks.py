"""The results of a part: checks, each with its observation. Pure."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Outcome(Enum):
    """The result of a check, or of a part."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Check(NamedTuple):
    """An expected observation.

    Attributes:
        what: its description.
        seen: the actual observation; for a skipped check, the reason.
    """

    outcome: Outcome
    what: str
    seen: str = ""


def check(what: str, good: bool, seen: object = "") -> Check:
    """Return a check that passed or failed."""
    return Check(Outcome.PASSED if good else Outcome.FAILED, what, str(seen))


def same(what: str, seen: object, wanted: object) -> Check:
    """Return a check that passes if something is as expected."""
    good = seen == wanted
    return check(what, good, seen if good else f"{seen!r} instead of {wanted!r}")


def skipped(what: str, why: str) -> Check:
    """Return a check that cannot be made here."""
    return Check(Outcome.SKIPPED, what, why)


def outcome(checks: Iterable[Check]) -> Outcome:
    """Return the result of a part: failed if any check failed, or if there is none."""
    found = {one.outcome for one in checks}
    if Outcome.FAILED in found or not found:
        return Outcome.FAILED
    return Outcome.PASSED if Outcome.PASSED in found else Outcome.SKIPPED
