"""Find the string literals of a module that are not for a machine; see `strings`."""

from __future__ import annotations

import ast
import re
from functools import singledispatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MACHINE_CALLS = frozenset(
    {
        *("compile", "match", "search", "fullmatch", "finditer", "findall"),
        *("split", "rsplit", "partition", "rpartition", "strip", "lstrip", "rstrip"),
        *("startswith", "endswith", "removeprefix", "removesuffix"),
        *("find", "rfind", "index", "count"),
        *("getattr", "setattr", "hasattr", "import_module", "cast", "namedtuple"),
        *("open", "getenv", "execv", "execve"),
        *("option", "said"),
    }
)
"""Functions and methods whose strings are for a machine, or have a page of their own."""

FLAG = re.compile(r"--?[\w-]+(=\S*)?")


def literals(node: ast.AST) -> Iterator[ast.expr]:
    """Yield every string and f-string below `node`, but for those that are for a machine."""
    if isinstance(node, (ast.Constant, ast.JoinedStr)) and _is_text(node):
        yield node
    skipped = [id(part) for part in _for_machines(node)]
    for child in ast.iter_child_nodes(node):
        if id(child) not in skipped:
            yield from literals(child)


@singledispatch
def _for_machines(node: ast.AST) -> list[ast.AST]:  # noqa: ARG001
    """Return the parts of a node that are for a machine, or that it shows itself."""
    return []


@_for_machines.register
def _(node: ast.JoinedStr) -> list[ast.AST]:
    return [part for part in node.values if isinstance(part, ast.Constant)]


@_for_machines.register
def _(node: ast.FormattedValue) -> list[ast.AST]:
    return [node.format_spec] if node.format_spec else []


@_for_machines.register
def _(node: ast.Expr) -> list[ast.AST]:
    return [node.value] if _is_text(node.value) else []


@_for_machines.register
def _(node: ast.AnnAssign) -> list[ast.AST]:
    return [node.annotation]


@_for_machines.register
def _(node: ast.arg) -> list[ast.AST]:
    return [node.annotation] if node.annotation else []


@_for_machines.register
def _(node: ast.FunctionDef) -> list[ast.AST]:
    return [node.returns] if node.returns else []


@_for_machines.register
def _(node: ast.If) -> list[ast.AST]:
    return [*node.body] if _name(node.test) == "TYPE_CHECKING" else []


@_for_machines.register
def _(node: ast.Compare) -> list[ast.AST]:
    return [part for part in (node.left, *node.comparators) if _is_text(part)]


@_for_machines.register
def _(node: ast.Subscript) -> list[ast.AST]:
    return [node.slice] if _is_text(node.slice) else []


@_for_machines.register
def _(node: ast.match_case) -> list[ast.AST]:
    return [node.pattern]


@_for_machines.register
def _(node: ast.Attribute) -> list[ast.AST]:
    return [node.value] if node.attr == "split" and _is_text(node.value) else []


@_for_machines.register
def _(node: ast.Call) -> list[ast.AST]:
    return [*node.args, *node.keywords] if _name(node.func) in MACHINE_CALLS else []


@_for_machines.register(ast.List)
@_for_machines.register(ast.Tuple)
def _(node: ast.List | ast.Tuple) -> list[ast.AST]:
    texts = [one for one in node.elts if _is_text(one)]
    return [*texts] if any(FLAG.fullmatch(template(one)) for one in texts) else []


def template(node: ast.expr) -> str:
    """Return the text of a string or f-string, with placeholders for its values."""
    if isinstance(node, ast.JoinedStr):
        return "".join(template(value) for value in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"{{{placeholder(node.value)}}}"
    return str(node.value) if isinstance(node, ast.Constant) else ""


def placeholder(node: ast.expr) -> str:
    """Return the name for an expression: its variable's, its attribute's, its first argument's."""
    if isinstance(node, ast.Name):
        return node.id.strip("_") or "value"
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_")
    if isinstance(node, ast.Call):
        return placeholder(node.args[0] if node.args else node.func)
    inner = _inner(node)
    return placeholder(inner) if inner else "value"


def _inner(node: ast.expr) -> ast.expr | None:
    """Return the part of an expression that names it best."""
    if isinstance(node, (ast.Subscript, ast.Starred)):
        return node.value
    if isinstance(node, ast.IfExp):
        return node.body
    if isinstance(node, ast.BoolOp):
        return node.values[0]
    if isinstance(node, ast.BinOp):
        return node.left
    if isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
        return node.generators[0].iter
    return None


def _name(node: ast.expr) -> str:
    """Return the last name of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_text(node: ast.AST) -> bool:
    """Return whether a node is a string or an f-string."""
    constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return constant or isinstance(node, ast.JoinedStr)
