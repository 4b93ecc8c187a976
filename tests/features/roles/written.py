"""Roles as tests write them."""

from __future__ import annotations

from typing import Any

from dsrun.launcher.features.roles.plan_table import RoleTable


def table(name: str = "trainer", *program: str, **values: Any) -> RoleTable:
    """Return a role, whose options are called by their names in errors."""
    values = {"ends": "job", **values}
    origins = {one: f"f:{one}" for one in (*values, "program")}
    return RoleTable(name, f"f:{name}", program or ("train.py",), values, origins)
