"""Removes findings of one step that follow from another step's findings. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .runner_steps import StepResult

CUT = {"link_reach", "node_reach"}
"""Faults of the network with which no collective of all nodes can succeed."""

FAILED = "failed_collective"


def without_consequences(results: Mapping[str, StepResult]) -> dict[str, StepResult]:
    """Return the results without blame for a collective that failed because of a cut link.

    Such a collective fails on all nodes, not only on those that do not reach each other. The blame
    becomes a note.
    """
    found = dict(results)
    network, collectives = found.get("network"), found.get("collectives")
    cut = [one for one in network.faults if one.code in CUT] if network else []
    if not cut or collectives is None:
        return found
    kept = tuple(one for one in collectives.faults if one.code != FAILED)
    if len(kept) < len(collectives.faults):
        why = "; ".join(one.text for one in cut)
        note = f"the collectives were not measured because they need all links: {why}"
        found["collectives"] = collectives._replace(faults=kept, notes=(*collectives.notes, note))
    return found
