"""The formats of dsrun's JSON outputs, and their versions. Pure.

The types of an output are in a module `json_types` beside the code that makes it. Only type
checkers import these modules, and `docs/generate/schemas.py`, which makes the schemas from them.
"""

from __future__ import annotations

from enum import Enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

VERSIONS = {
    "check": 1,
    "dry_run": 2,
    "dry_run_roles": 1,
    "elastic_plan": 1,
    "event": 1,
    "exec": 1,
    "jobs": 1,
    "promises": 1,
    "report": 1,
    "stacks": 1,
    "topo": 1,
}
"""The version of each format, by the name of its schema in docs/schemas.

A version grows if a field is renamed or removed, or changes its meaning.
"""

_PLAIN = frozenset({str, int, float, bool, type(None)})


def versioned(schema: str, fields: Mapping[str, object]) -> dict[str, Any]:
    """Return an object for JSON, with the version of its format in front, as `format`."""
    return {"format": VERSIONS[schema], **as_json(fields)}


def as_json(value: Any) -> Any:
    """Return a value in the form that JSON has.

    A record becomes an object, an enum its value, a tuple a list, and a set a sorted list.
    """
    value = value._asdict() if hasattr(value, "_asdict") else value
    # Most values are plain; calling a function for each would take most of the time for a large
    # plan.
    if isinstance(value, dict):
        return {name: one if type(one) in _PLAIN else as_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [one if type(one) in _PLAIN else as_json(one) for one in value]
    if isinstance(value, frozenset):
        return sorted(value)
    return value.value if isinstance(value, Enum) else value
