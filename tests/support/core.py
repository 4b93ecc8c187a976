"""The core: the modules that run one static job on this machine, and what they import at once.

Which these are is said in pyproject.toml; the lint of imports holds the list.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from importlinter import Contract, ContractCheck, fields, output

from .checkout import CHECKOUT
from .code_size import code_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from grimp import ImportGraph

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LAUNCHER = CHECKOUT / "launcher"


class CoreFaults(NamedTuple):
    """Faults of the list of the core.

    Attributes:
        unknown: names in the list that are no modules of the launcher.
        arrows: imports of modules outside of the core, as texts.
    """

    unknown: Sequence[str]
    arrows: Sequence[str]


class Core(Contract):
    """Modules that import nothing but each other at once.

    An import within a function, for types alone or by a name in a table is not at once.
    """

    type_name = "core"

    core = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Look for arrows out of the core."""
        del graph, verbose
        found = faults(listed(cast("list[str]", self.core)))
        return ContractCheck(kept=not any(found), metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print what is wrong."""
        found: CoreFaults = check.metadata["found"]
        for words, some in (
            ("is in the list of the core, and is no module", found.unknown),
            ("leaves the core: import it where it is needed, by a door", found.arrows),
        ):
            for one in some:
                output.print_error(f"{one}: {words}")


def contract() -> dict[str, Any]:
    """Return what pyproject.toml says of the core."""
    every = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (one,) = (one for one in every["contracts"] if one["type"] == Core.type_name)
    return dict(one)


def listed(rows: Collection[str]) -> list[str]:
    """Return the names of modules, relative to the launcher: a row is a folder and its modules."""
    found = []
    for row in rows:
        folder, _, names = row.partition(":")
        prefix = f"{folder.strip()}." if folder.strip() else ""
        found += [f"{prefix}{name}" for name in names.split()]
    return found


def faults(core: Collection[str]) -> CoreFaults:
    """Return the faults of the list of a core; the version of dsrun belongs to every module."""
    known = modules()
    unknown = [name for name in core if name not in known]
    found = {
        f"{name} -> {other}"
        for name in core
        if name in known
        for other in at_once(known[name], known)
        if other and other not in core and code_lines(known[other].read_text())
    }
    return CoreFaults(unknown, sorted(found))


@cache
def modules() -> Mapping[str, Path]:
    """Return the files of all modules, by their names relative to the launcher."""
    files = sorted(LAUNCHER.rglob("*.py"))
    return {_name(path): path for path in files}


def _name(path: Path) -> str:
    parts = path.relative_to(LAUNCHER).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def at_once(path: Path, known: Collection[str]) -> set[str]:
    """Return the modules that a module imports as it is loaded, with names of `known` alone."""
    package = path.parent.relative_to(LAUNCHER).parts
    return {
        name
        for node in _statements(ast.parse(path.read_text(encoding="utf-8")).body)
        if isinstance(node, ast.ImportFrom) and node.level <= len(package) + 1
        for name in _imported(node, package)
        if name in known
    }


def _imported(node: ast.ImportFrom, package: tuple[str, ...]) -> Iterator[str]:
    """Yield each module that an import may load: its own name, and those of what is taken."""
    above = package[: len(package) + 1 - node.level] if node.level else None
    whole = node.module or ""
    if above is None:
        if not whole.startswith("dsrun.launcher"):
            return
        base = whole.removeprefix("dsrun.launcher").lstrip(".")
    else:
        base = ".".join((*above, *filter(None, [whole])))
    yield base
    yield from (f"{base}.{one.name}" if base else one.name for one in node.names)


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run as a module is loaded, but for those for types alone."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and not _is_for_types(node.test):
            yield from _statements([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            inner = (*node.body, *node.orelse, *node.finalbody)
            yield from _statements([*inner, *(one for h in node.handlers for one in h.body)])
        elif isinstance(node, (ast.With, ast.ClassDef)):
            yield from _statements(node.body)


def _is_for_types(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def size(core: Collection[str]) -> tuple[int, int]:
    """Return how many modules of a core have code, and how many lines of code."""
    known = modules()
    lines = [len(code_lines(known[name].read_text())) for name in core if name in known]
    return sum(map(bool, lines)), sum(lines)
