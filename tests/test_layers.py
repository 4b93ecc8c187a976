"""What the lint of imports does not see: imports for types alone."""

from __future__ import annotations

import ast

import pytest

from .support.checkout import CHECKOUT

BEHIND = ("head", "node", "backends", "control", "resources", "specs", "common")


def imported(text: str) -> set[str]:
    """Return the names of all modules that a module imports, for types or to run."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module or ''}.{one.name}" for one in node.names)}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return {name for names in found for name in names.split(".")}


@pytest.mark.parametrize("folder", BEHIND)
def test_nothing_behind_planning_knows_the_command_line(folder: str) -> None:
    files = sorted((CHECKOUT / "launcher" / folder).rglob("*.py"))
    assert files
    assert [str(file) for file in files if "cli" in imported(file.read_text())] == []


def test_an_import_for_types_is_seen() -> None:
    assert "cli" in imported("if TYPE_CHECKING:\n    from ...cli.options import Options\n")
    assert "cli" in imported("def f():\n    from .. import cli\n")
