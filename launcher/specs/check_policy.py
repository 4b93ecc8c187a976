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
        exclude_unhealthy: a job that may have fewer nodes starts without those that fail.
    """

    quick: bool = True
    strict: bool = False
    health_command: str = ""
    health_timeout: float = 60.0
    exclude_unhealthy: bool = False
