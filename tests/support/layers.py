"""A lint of layers that also follows imports by name: `import_module`, and tables of names."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, cast

from importlinter import fields
from importlinter.contracts.layers import LayersContract

from .checkout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from grimp import ImportGraph
    from importlinter.domain.contract import ContractCheck

TABLED = re.compile(r"(\.+[\w.]+):[A-Za-z]\w*")
"""How tables name what is imported later: "module:name", the module relative to a package."""

FEATURES = "dsrun.launcher.features"
"""The package below which `common.entry.load` looks for what tables name."""


class Layers(LayersContract):
    """Layers whose imports by a constant name count as well, but for those of doors.

    A door is there so that a lower layer does what a higher one adds to a table.
    """

    type_name = "layers_with_names"

    doors = fields.ListField(subfield=fields.StringField(), required=False, default=[])

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Check the order, imports by name included."""
        for importer in sorted(graph.modules.difference(cast("list[str]", self.doors))):
            for line, imported in imports_by_name(importer, graph.modules):
                graph.add_import(
                    importer=importer, imported=imported, line_number=line, line_contents=imported
                )
        return super().check(graph, verbose)


def imports_by_name(module: str, known: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the full name of every module that is imported by a constant name.

    Raises:
        LookupError: there is no such module.
    """
    path = CHECKOUT.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    package = module if path.is_dir() else module.rpartition(".")[0]
    if file.exists():
        for line, name in names(file.read_text(encoding="utf-8")):
            yield line, resolved(name, package, known)


def names(text: str) -> Iterator[tuple[int, str]]:
    """Yield the relative names by which a module imports others, each with its line."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ) if name.startswith("."):
                yield node.lineno, name
            case ast.Constant(value=str(name)) if found := TABLED.fullmatch(name):
                yield node.lineno, found[1]


def resolved(name: str, package: str, known: Collection[str]) -> str:
    """Return the module of a relative name: a feature's, or one in a package that has it."""
    above = len(name) - len(name.lstrip(".")) - 1
    if f"{FEATURES}{name}" in known:
        return f"{FEATURES}{name}"
    folders = package.split(".")[: -above or None]
    while folders:
        found = f"{'.'.join(folders)}.{name.lstrip('.')}"
        if found in known:
            return found
        folders.pop()
    raise LookupError(f"{package}: no module {name}")
