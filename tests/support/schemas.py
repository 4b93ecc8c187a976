"""The JSON schemas of dsrun's outputs, as `docs/schemas` has them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from .checkout import CHECKOUT

FOLDER = CHECKOUT / "docs" / "schemas"
SUFFIX = ".schema.json"


def names() -> list[str]:
    """Return the names of all schemas."""
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


@cache
def schema(name: str) -> dict[str, Any]:
    """Return a schema by its name, such as `report`."""
    return dict(json.loads((FOLDER / f"{name}{SUFFIX}").read_text(encoding="utf-8")))


@cache
def _validator(name: str, part: str) -> Draft202012Validator:
    whole = schema(name)
    return Draft202012Validator({**whole, **whole["$defs"][part]} if part else whole)


def faults(name: str, value: object, part: str = "") -> list[str]:
    """Return what a schema, or one of its definitions, finds wrong with a value."""
    return [error.message for error in _validator(name, part).iter_errors(value)]
