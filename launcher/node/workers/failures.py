"""What a node tells of workers that failed."""

from __future__ import annotations

from ...common.values import NamedTuple


class FailureDetails(NamedTuple):
    """What is known about workers that failed by themselves, by rank; see `messages.Done`."""

    tails: dict[str, list[str]]
    recorded: dict[str, list[str]]
    logs: dict[str, str]
    evidence: dict[str, str]
