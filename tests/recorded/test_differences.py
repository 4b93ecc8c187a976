"""What a record leaves out, and that nothing else is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .differences import beyond_defaults, changes, layout

SCHEMA: dict[str, Any] = {
    "$defs": {
        "inner": {"properties": {"on": {"default": False}, "size": {"default": 1}}},
        "plan": {
            "properties": {
                "inner": {"$ref": "#/$defs/inner"},
                "other": {"default": None, "oneOf": [{"$ref": "#/$defs/inner"}, {"type": "null"}]},
                "host": {},
            }
        },
    }
}


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ({"inner": {"on": False, "size": 1}, "other": None, "host": "a"}, {"host": "a"}),
        ({"inner": {"on": True, "size": 1}}, {"inner": {"on": True}}),
        ({"inner": {"on": 0, "size": 1.0}}, {"inner": {"on": 0, "size": 1.0}}),
        ({"inner": {"on": None, "size": 1}}, {"inner": {"on": None}}),
        ({"other": {"on": False, "size": 1}}, {"other": {}}),
        ({"other": {"on": False, "size": 2}}, {"other": {"size": 2}}),
        ({"host": None}, {"host": None}),
    ],
)
def test_defaults_of_a_schema_are_left_out(value: Any, left: Any) -> None:
    assert json.dumps(beyond_defaults(value, SCHEMA["$defs"]["plan"], SCHEMA)) == json.dumps(left)


@pytest.mark.parametrize(
    ("value", "base", "change"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": 2}),
        ({"a": 1}, {"a": 1, "b": 3}, {"": ["b"]}),
        ({"a": 1, "b": 3}, {"a": 1}, {"b": 3}),
        ({"a": True}, {"a": 1}, {"a": True}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 1}}, {"a": {"c": 2}}),
        (["x", "y", "z"], ["x", "z"], {"1:1": ["y"]}),
        (["x", "w"], ["x", "y", "w"], {"1:2": []}),
        ([1, 2], [1], [1, 2]),
        ({"a": []}, {"a": ["x", "y"]}, {"a": []}),
    ],
)
def test_a_change_names_what_differs(value: Any, base: Any, change: Any) -> None:
    assert json.dumps(changes(value, base)) == json.dumps(change)


def test_what_fits_on_a_line_is_on_one() -> None:
    value = {"b": [1, {"x": None}], "a": ["long" * 20, "long" * 20], "c": {}}
    assert json.loads(layout(value)) == value
    lines = layout(value).splitlines()
    assert lines[-3:] == [' "b": [1, {"x": null}],', ' "c": {}', "}"]
    assert len(lines) == 8
