"""The phases of a run."""

from __future__ import annotations

from enum import IntEnum


class RunPhase(IntEnum):
    """The phases of a run, in their order; a run never goes back."""

    STARTING = 0
    RUNNING = 1
    STOPPING = 2
    ENDING = 3
    OVER = 4
