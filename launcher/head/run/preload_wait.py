"""Says what is waited for while preloaded modules are still being imported."""

from __future__ import annotations

from ..fleet.hosts import some_of
from .phase import Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .run import Run
    from .run_node import RunNode

PATIENCE = 2.0
"""Seconds from START until the user is told."""


def watch(run: Run, nodes: Sequence[RunNode]) -> None:
    """Print a line if workers of these nodes have not been started after `PATIENCE`."""

    def look() -> None:
        waiting = [one.name for one in nodes if not one.over and not run.workers.began(one)]
        if waiting and run.phase is Phase.RUNNING:
            modules = ", ".join(run.spec.workers.preload)
            run.log(f"waiting for the import of {modules} on {some_of(waiting)} (--preload)")

    run.loop.call_later(PATIENCE, look)
