"""How far a run has come."""

from __future__ import annotations

from enum import IntEnum


class Phase(IntEnum):
    """How far a run has come; it never goes back."""

    STARTING = 0
    RUNNING = 1
    STOPPING = 2
    ENDING = 3
    OVER = 4
