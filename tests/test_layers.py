"""What the lint of imports does not see: imports for types alone."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

import grimp
import pytest

from .support.checkout import CHECKOUT
from .support.layers import imports_by_name, names, resolved

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

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
        "dsrun.launcher.head.doors": "dsrun.launcher.features.watch.runner",
        "dsrun.launcher.features.watch.runner": ("dsrun.launcher.features.picture.runner_page"),
        "dsrun.launcher.node.doors": "dsrun.launcher.features.stacks.node_questions",
        "dsrun.launcher.node.programs": "dsrun.launcher.features.sync.node_program",
    }.items():
        assert entry in {module for _, module in imports_by_name(table, modules)}


OF_FEATURES = {
    "head.job.control -> features.jobs.runner_socket",
    "node.run.run -> features.preload.node_preloader",
}
"""Types of features that the core names."""


def contracts() -> dict[str, dict[str, Any]]:
    """The contracts about the order of folders, by the package that has them."""
    text = (CHECKOUT / "pyproject.toml").read_text()
    every = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return {one["containers"][0]: one for one in every if "layers" in one}


def rising(graph: grimp.ImportGraph, package: str, contract: dict[str, Any]) -> Iterator[str]:
    """Yield the imports of a package's folders, for types alone or not, that go up or aside."""
    height = {
        folder: -at
        for at, layer in enumerate(contract["layers"])
        for folder in layer.replace(" ", "").split("|")
    }
    inside = {name: name.removeprefix(f"{package}.") for name in graph.find_descendants(package)}
    for importer, short in sorted(inside.items()):
        for imported in sorted(graph.find_modules_directly_imported_by(importer) & inside.keys()):
            own, other = (one.partition(".")[0] for one in (short, inside[imported]))
            if own != other and height[own] <= height[other]:
                yield f"{short} -> {inside[imported]}"


def test_types_come_from_below_too() -> None:
    graph = grimp.build_graph("dsrun", cache_dir=None)
    found = {
        package: {*rising(graph, package, contract)} for package, contract in contracts().items()
    }
    reached = contracts()["dsrun.launcher"]["ignore_imports"]
    found["dsrun.launcher"] -= {one.replace("dsrun.launcher.", "") for one in reached}
    assert found.pop("dsrun.launcher") == OF_FEATURES
    assert {package: rest for package, rest in found.items() if rest} == {}
