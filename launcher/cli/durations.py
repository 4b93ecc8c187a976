"""Durations in the format of options: `30`, `90s`, `30m`, `2h`, `1h30m`. Pure."""

from __future__ import annotations

FORMS = "30, 90s, 30m, 2h or 1h30m"
"""Examples in the message about a bad duration."""

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
"""Seconds in each unit; in a duration they come in this order, each at most once."""


def seconds(text: str) -> float:
    """Return a duration in seconds; a number without a unit is a number of seconds.

    Raises:
        ValueError: the text is not a duration.
    """
    try:
        return float(text)
    except ValueError:
        return _with_units(text)


def _with_units(text: str) -> float:
    total, rest = 0.0, text
    for unit, size in _UNITS.items():
        number, found, behind = rest.partition(unit)
        if found:
            total += _number(number) * size
            rest = behind
    if rest or not text:
        raise ValueError(text)
    return total


def _number(text: str) -> float:
    """Return a number written with digits and at most one point."""
    if not (text.isascii() and text.replace(".", "", 1).isdigit()):
        raise ValueError(text)
    return float(text)
