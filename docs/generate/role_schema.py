"""Write `docs/schemas/dry_run_roles.schema.json`, from the schema of a dry run and the roles."""

from __future__ import annotations

import json
from typing import Any

from dsrun.launcher.common.formats import VERSIONS
from dsrun.launcher.specs import roles

from . import schemas

PATH = "docs/schemas/dry_run_roles.schema.json"

NAME = {"type": "string"}
NAMES = {"type": "array", "items": NAME}


def files() -> dict[str, str]:
    """Return the schema by its path from the root."""
    plan = json.loads(schemas.files()[schemas.PATH])
    job = {"$ref": "#/$defs/plan"}
    fields: dict[str, Any] = {
        "format": {
            "description": plan["$defs"]["plan"]["properties"]["format"]["description"],
            "const": VERSIONS["dry_run_roles"],
        },
        "job": {"description": "All nodes, and how they are reached.", **job},
        "order": {
            "description": "Groups of roles: each starts once those before it that it waits for"
            " are ready.",
            "type": "array",
            "items": NAMES,
        },
        "roles": {
            "description": "The roles in the order in which they are written.",
            "type": "array",
            "items": {"$ref": "#/$defs/role"},
        },
    }
    whole = {
        "$schema": plan["$schema"],
        "$id": "urn:dsrun:schema:dry_run_roles",
        "title": "dsrun --roles FILE --dry_run --json",
        "description": "The job of several roles that dsrun would run, as one JSON object on"
        " standard output. All times are in seconds.",
        **_record(fields),
        "$defs": {**_definitions(plan), "role": _role(job), "ready": _ready()},
    }
    return {PATH: json.dumps(whole, indent=2, ensure_ascii=False) + "\n"}


def _definitions(plan: dict[str, Any]) -> dict[str, Any]:
    """Return those of a dry run of one program; a job within this form has no version."""
    known = {name: one for name, one in plan["$defs"].items() if name != "allocation"}
    whole = known["plan"]
    fields = {name: one for name, one in whole["properties"].items() if name != "format"}
    required = [name for name in whole["required"] if name != "format"]
    return {**known, "plan": {**whole, "properties": fields, "required": required}}


def _record(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def _role(job: dict[str, Any]) -> dict[str, Any]:
    types = {
        "name": {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
        "job": job,
        "ends": {"enum": list(roles.ENDS)},
        "after": NAMES,
        "ready": {"$ref": "#/$defs/ready"},
        "ports": NAMES,
        "on_failure": {"enum": list(roles.ON_FAILURE)},
        "max_restarts": {"type": "integer"},
    }
    return _described(roles.Role, types)


def _ready() -> dict[str, Any]:
    kind, timeout = {"enum": list(roles.READY)}, {"type": "number"}
    return _described(roles.Ready, {"kind": kind, "port": NAME, "what": NAME, "timeout": timeout})


def _described(shape: Any, types: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a record: its fields have the texts of its docstring."""
    texts = schemas.texts(shape)
    return _record({name: {"description": texts[name], **types[name]} for name in types})
