"""What a recorded value has beyond what is known of it, so that a record holds only that. Pure."""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import Any

ABSENT = ""
"""The field that names those which the base has, and the value has not."""

WIDTH = 110
"""Characters of a line in a file of records, where a value allows it."""


def beyond_defaults(value: Any, described: dict[str, Any], schema: dict[str, Any]) -> Any:
    """Return a value without the fields whose values are the defaults of its schema.

    Args:
        value: to shorten, valid by the schema.
        described: the part of the schema that describes it.
        schema: the whole schema, where references lead.
    """
    if "$ref" in described:
        described = schema["$defs"][described["$ref"].removeprefix("#/$defs/")]
    for choice in described.get("oneOf", []):
        if value is not None and choice != {"type": "null"}:
            return beyond_defaults(value, choice, schema)
    if not isinstance(value, dict) or "properties" not in described:
        return value
    shorter = {}
    for name, one in value.items():
        field = described["properties"][name]
        left = beyond_defaults(one, field, schema)
        if not (same(one, field["default"]) if "default" in field else left == {} != one):
            shorter[name] = left
    return shorter


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are written alike; 1, 1.0 and true are not."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def changes(value: Any, base: Any) -> Any:
    """Return how a value differs from another one: its changed fields, its changed lines, or all.

    Lines that replace some of the base are under the numbers of these, from 0, as in a slice.
    """
    if isinstance(value, dict) and isinstance(base, dict):
        fields = {name: changes(one, base[name]) for name, one in value.items() if name in base}
        new = {name: one for name, one in value.items() if name not in base}
        changed = {n: one for n, one in fields.items() if not same(value[n], base[n])}
        absent = sorted(base.keys() - value.keys())
        return {**changed, **new, **({ABSENT: absent} if absent else {})}
    if _is_text(value) and _is_text(base):
        matches = SequenceMatcher(None, base, value, autojunk=False).get_opcodes()
        return {f"{a}:{b}": value[c:d] for kind, a, b, c, d in matches if kind != "equal"}
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(isinstance(one, str) for one in value)


def layout(value: Any, room: int = WIDTH, indent: str = "") -> str:
    """Return a value as JSON, with everything on one line that fits there."""
    line = json.dumps(value, sort_keys=True)
    if len(line) <= room or not isinstance(value, (dict, list)) or not value:
        return line
    inner = indent + " "
    if isinstance(value, list):
        parts = [layout(one, WIDTH - len(inner), inner) for one in value]
    else:
        heads = {name: f"{json.dumps(name)}: " for name in sorted(value)}
        parts = [
            head + layout(value[name], WIDTH - len(inner) - len(head), inner)
            for name, head in heads.items()
        ]
    ends = "{}" if isinstance(value, dict) else "[]"
    return f"{ends[0]}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{ends[1]}"
