"""What `dsrun-check --promises --json` says, where the machine may have been busy."""

from __future__ import annotations

from typing import Any


def broken(told: dict[str, Any]) -> dict[str, list[str]]:
    """Return what was wrong with rows that did not hold, besides the time that they took."""
    rows = {one["row"]: one["why"] for one in told["rows"] if one["state"] != "skipped"}
    wrong = {row: [one for one in why if not late(one)] for row, why in rows.items()}
    return {row: why for row, why in wrong.items() if why}


def late(why: str) -> bool:
    """Return whether something only took too long."""
    return why.startswith("it took ") and "not at most" in why
