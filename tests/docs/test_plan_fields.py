"""What the schema of a dry run says of fields beyond their types."""

from __future__ import annotations

from typing import Any

import pytest

from ..support import schemas

PLAN = schemas.schema("dry_run")["$defs"]


@pytest.mark.parametrize(
    ("policy", "field", "entry"),
    [
        ("worker_policy", "preload", {"items": {"type": "string"}, "default": []}),
        ("worker_policy", "warm", {"type": "boolean", "default": False}),
        ("watch_policy", "on_hang", {"enum": ["report", "stop", "restart"], "default": "report"}),
        ("watch_policy", "hook", {"type": "boolean", "default": True}),
        ("output_policy", "report_file", {"type": ["string", "null"], "default": None}),
        ("output_policy", "tee", {"$ref": "#/$defs/streams"}),
        ("elastic_policy", "restarts", {"type": "integer", "default": 100}),
        ("elastic_policy", "patience", {"type": "number", "default": 40.0}),
        ("elastic_policy", "cool", {"type": "number", "default": 300.0}),
        ("supervision_policy", "requeue_codes", {"items": {"type": "integer"}, "default": []}),
        ("plan", "elastic", {"default": None}),
    ],
)
def test_a_field_has_its_choices_and_its_default(
    policy: str, field: str, entry: dict[str, Any]
) -> None:
    assert entry.items() <= PLAN[policy]["properties"][field].items()


def test_a_list_has_the_choices_of_its_items() -> None:
    restart_on = PLAN["elastic_policy"]["properties"]["restart_on"]
    assert "enum" not in restart_on
    assert "preempted" in restart_on["items"]["enum"]


@pytest.mark.parametrize(("shape", "field"), [("backend_settings", "python"), ("origin", "source")])
def test_what_is_made_for_every_job_has_no_default(shape: str, field: str) -> None:
    assert "default" not in PLAN[shape]["properties"][field]
