"""What the lint of imports does not see: imports for types alone."""

from __future__ import annotations

import ast

import pytest

from .support.checkout import CHECKOUT
from .support.layers import imports_by_name, names, resolved

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


def test_an_import_by_name_is_seen() -> None:
    text = """TABLE = {"a": ".one.two:Three", "b": "host:22"}
def f():
    import_module("..four", __package__)
    import_module(name)
    import_module("torch")
"""
    assert sorted(names(text)) == [(1, ".one.two"), (3, "..four")]


def test_a_name_means_a_module_of_a_package_that_has_it() -> None:
    known = {"d.a.b", "d.a.c.b", "d.e"}
    assert resolved(".b", "d.a.c", known) == "d.a.c.b"
    assert resolved(".b", "d.a.x", known) == "d.a.b"
    assert resolved("..e", "d.a", known) == "d.e"
    with pytest.raises(LookupError, match=r"d\.a: no module \.z"):
        resolved(".z", "d.a", known)


def test_the_tables_of_dsrun_are_followed() -> None:
    modules = {
        "dsrun." + ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
        for path in (CHECKOUT / "launcher").rglob("*.py")
    }
    for table, entry in {
        "dsrun.launcher.backends": "dsrun.launcher.backends.local",
        "dsrun.launcher.head.watch.attach": "dsrun.launcher.head.hooks.metrics",
        "dsrun.launcher.node.programs": "dsrun.launcher.node.sync.program",
    }.items():
        assert entry in {module for _, module in imports_by_name(table, modules)}
