"""The groups in which the full help shows the options, in order."""

from __future__ import annotations

from . import checks, cores, elastic, hosts, output, program, start, stopping, watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .description import Description

GROUPS: dict[str, dict[str, Description]] = {
    "Hosts and devices": hosts.OPTIONS,
    "Program": program.OPTIONS,
    "Environment of the workers": program.ENVIRONMENT,
    "Starting the nodes": start.OPTIONS,
    "Checks before the start": checks.OPTIONS,
    "Output": output.OPTIONS,
    "Watching a running job": watch.OPTIONS,
    "Failures and stopping": stopping.OPTIONS,
    "Elastic jobs": elastic.OPTIONS,
    "Cores and memory": cores.OPTIONS,
}
"""Title of each group, and the descriptions of its options by the names of the option table."""


def descriptions() -> dict[str, Description]:
    """Return the description of every option by its name."""
    return {name: one for group in GROUPS.values() for name, one in group.items()}
