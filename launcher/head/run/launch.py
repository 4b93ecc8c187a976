"""One run on its own fleet."""

from __future__ import annotations

from .outcome import end_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...backends.base import Dial, Part
    from ..report.report import Report
    from .run import Run


def launch(run: Run, parts: Sequence[Part], dial: Dial | None = None) -> Report:
    """Connect the fleet of a run, wait until the run is over, then close the fleet.

    Args:
        run: not begun yet.
        parts: each backend with the nodes it starts.
        dial: where node launchers dial, for the backends that need it.

    Returns:
        the report.

    Raises:
        DsrunError: some node cannot take part; nothing is left running.
    """
    fleet = run.fleet
    try:
        run.begin()
        fleet.connect(parts, dial)
        run.wait()
        if not run.abandoned:
            fleet.close(end_message(run))
    finally:
        fleet.disconnect()
    return run.result()
