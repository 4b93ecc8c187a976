"""Faults that can be planted in a module, read from its syntax tree. Pure.

Left alone is what no test of behaviour can see or should fix: type hints, docstrings, the texts
of messages, figures that have a name (limits, times), and what only type checkers run.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

BEHAVIOUR = ("condition", "dropped call", "early return", "member")
"""Kinds that change what is done: a wrong state, a lost event, a signal that is not sent."""

_OTHER = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
}
_HINTS = {"annotation", "returns"}
_TIMED = {"call_later", "sleep", "poll", "timeout", "wait"}


class Fault(NamedTuple):
    """Another text for one piece of a source.

    Attributes:
        kind: of fault, in a word or two.
        start: where the piece starts, in bytes of UTF-8.
        end: where it ends.
        text: what stands there instead.
    """

    kind: str
    start: int
    end: int
    text: str

    def spoil(self, source: str) -> str:
        """Return the source with the fault in it."""
        data = source.encode()
        return (data[: self.start] + self.text.encode() + data[self.end :]).decode()


def faults_of(source: str) -> list[Fault]:
    """Return what can be planted in a source, in the order of kinds; not all of it is Python."""
    return sorted(set(_Reader(source).faults()))


def is_python(source: str) -> bool:
    """Return whether a source can be compiled."""
    try:
        compile(source, "spoiled", "exec")
    except SyntaxError:
        return False
    return True


class _Reader:
    """Walks over a source, and knows where each piece of it stands."""

    def __init__(self, source: str) -> None:
        self._data = source.encode()
        self._tree = ast.parse(source)
        self._members = _members(self._tree)
        self._lines = [0]
        for line in source.encode().splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def faults(self) -> Iterator[Fault]:
        for statement in self._tree.body:
            yield from self._walk(statement, named=True)

    def _walk(self, node: ast.AST, *, named: bool = False) -> Iterator[Fault]:
        """Walk down from a node; `named`: an assignment here gives a figure a name."""
        if _is_left_alone(node) or (named and _is_named_figure(node)):
            return
        yield from self._at(node)
        for field, value in ast.iter_fields(node):
            if field in _HINTS or (field == "args" and _is_timed(node)):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._walk(child, named=isinstance(node, ast.ClassDef))

    def _at(self, node: ast.AST) -> Iterator[Fault]:
        match node:
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield from self._negated(test)
            case ast.comprehension(ifs=[first, *_]):
                yield from self._negated(first)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._fault("not", node, self._text(operand))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                yield from self._operator("comparison", op, left, right)
                yield from self._word(right)
            case ast.BoolOp(op=op, values=[first, second, *_]):
                yield from self._operator("and/or", op, first, second)
            case ast.BinOp(op=ast.Add() | ast.Sub() as op, left=left, right=right):
                yield from self._operator("sum", op, left, right)
            case ast.Expr(value=ast.Call()):
                yield self._fault("dropped call", node, "pass")
            case ast.FunctionDef(returns=ast.Constant(value=None), body=[_, *rest]):
                yield from self._early(rest)
            case ast.Break():
                yield self._fault("break/continue", node, "continue")
            case ast.Continue():
                yield self._fault("break/continue", node, "break")
            case _:
                yield from self._value(node)

    def _value(self, node: ast.AST) -> Iterator[Fault]:
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=member):
                yield from self._other_member(node, owner, member)
            case ast.Constant():
                yield from self._constant(node)
            case ast.Tuple(ctx=ast.Load()) | ast.List(ctx=ast.Load()) | ast.Set() | ast.Dict():
                yield from self._shorter(node)

    def _negated(self, test: ast.expr) -> Iterator[Fault]:
        if not isinstance(test, ast.UnaryOp):
            yield self._fault("condition", test, f"(not ({self._text(test)}))")

    def _operator(self, kind: str, op: ast.AST, left: ast.expr, right: ast.expr) -> Iterator[Fault]:
        """Parentheses may stand between an operator and what it is between."""
        if type(op) not in _OTHER:
            return
        pattern, other = _OTHER[type(op)]
        start, end = self._place(left)[1], self._place(right)[0]
        found = re.search(pattern, self._data[start:end].decode())
        if found:
            yield Fault(kind, start + found.start(), start + found.end(), other)

    def _word(self, right: ast.expr) -> Iterator[Fault]:
        if isinstance(right, ast.Constant) and isinstance(right.value, str) and right.value:
            yield self._fault("word", right, '""')

    def _early(self, rest: list[ast.stmt]) -> Iterator[Fault]:
        for statement in rest:
            if not isinstance(statement, ast.Return | ast.FunctionDef):
                start, _ = self._place(statement)
                indent = " " * statement.col_offset
                yield Fault("early return", start, start, f"return\n{indent}")

    def _other_member(self, node: ast.Attribute, owner: str, member: str) -> Iterator[Fault]:
        """Give a state, a signal or a kind of message for each other one that the source knows."""
        known = self._members.get(owner, ())
        if member in known:
            for other in known:
                if other != member:
                    yield self._fault("member", node, f"{owner}.{other}")

    def _constant(self, node: ast.Constant) -> Iterator[Fault]:
        if isinstance(node.value, bool):
            yield self._fault("True/False", node, str(not node.value))
        elif isinstance(node.value, int):
            yield self._fault("number", node, str(node.value + 1))

    def _shorter(self, node: ast.Tuple | ast.List | ast.Set | ast.Dict) -> Iterator[Fault]:
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            items = [f"{self._text(k)}: {self._text(v)}" if k else "" for k, v in pairs]
        else:
            items = [self._text(item) for item in node.elts]
        if len(items) < 2 or not all(items):
            return
        around = {ast.Tuple: "({},)", ast.List: "[{}]"}.get(type(node), "{{{}}}")
        for at in range(len(items)):
            rest = ", ".join(items[:at] + items[at + 1 :])
            yield self._fault("element", node, around.format(rest))

    def _fault(self, kind: str, node: ast.AST, text: str) -> Fault:
        return Fault(kind, *self._place(node), text)

    def _place(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._lines[node.lineno - 1] + node.col_offset
        return start, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.AST) -> str:
        start, end = self._place(node)
        return self._data[start:end].decode()


def _members(tree: ast.Module) -> dict[str, list[str]]:
    """Return the members, named in capitals, that a source knows of enums and modules."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=member) if member.isupper():
                found.setdefault(owner, set()).add(member)
    return {owner: sorted(members) for owner, members in found.items()}


def _is_left_alone(node: ast.AST) -> bool:
    """Return whether this is text for a person, or for type checkers and programmers alone."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test)
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    return isinstance(node, ast.JoinedStr | ast.Raise | ast.Import | ast.ImportFrom)


def _is_named_figure(node: ast.AST) -> bool:
    """Return whether this names a limit, a time, a number of the system, or what is exported."""
    if not isinstance(node, ast.Assign):
        return False
    return isinstance(node.value, ast.Constant | ast.BinOp) or "__all__" in ast.dump(node)


def _is_timed(node: ast.AST) -> bool:
    """Return whether this is a call whose numbers are times."""
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
    return name in _TIMED
