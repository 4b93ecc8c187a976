"""What is checked before the workers of a job start."""

from __future__ import annotations

from ..common.values import NamedTuple


class CheckPolicy(NamedTuple):
    """What is checked before workers start on a node.

    Attributes:
        quick: the facts of all nodes are compared (`head/checks`).
        strict: what would be a warning ends the start.
        health_command: a shell command that must succeed on a node; "" for none.
        health_timeout: seconds that it may take.
        least: the fewest nodes to start with, without those that fail or cannot be reached; None if
            all are needed, or an elastic job's own limit counts alone.
    """

    quick: bool = True
    strict: bool = False
    health_command: str = ""
    health_timeout: float = 60.0
    least: int | None = None
