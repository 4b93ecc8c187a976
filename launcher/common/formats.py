"""The forms of dsrun's JSON outputs, and their versions. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

VERSIONS = {
    "check": 1,
    "dry_run": 2,
    "elastic_plan": 1,
    "event": 1,
    "exec": 1,
    "jobs": 1,
    "report": 1,
    "stacks": 1,
    "topo": 1,
}
"""By the name of the schema in docs/schemas.

A version grows if a field is renamed or removed, or means something else.
"""


def versioned(schema: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the version of its form in front, as `format`."""
    return {"format": VERSIONS[schema], **fields}
