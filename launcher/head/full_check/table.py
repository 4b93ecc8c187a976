"""The steps of the full check, in their order."""

from __future__ import annotations

from . import network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .steps import Step

STEPS: tuple[Step, ...] = (network.STEP,)
