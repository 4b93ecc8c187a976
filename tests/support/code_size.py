"""How much of a module is code: neither blank, nor a docstring, nor a comment. Pure."""

from __future__ import annotations

import ast
import io
import tokenize

NO_CODE = frozenset(
    {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
        *(tokenize.ENCODING, tokenize.ENDMARKER),
    }
)


def code_lines(text: str) -> list[str]:
    """Return the lines of a module that are code, in order, without indentation and comments."""
    lines = text.splitlines()
    texts = _docstrings(ast.parse(text))
    kept: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        first, last = token.start[0], token.end[0]
        if token.type not in NO_CODE and first not in texts:
            kept |= {at: lines[at - 1].strip() for at in range(first, last + 1)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        at, column = token.start
        if token.type == tokenize.COMMENT and at in kept:
            kept[at] = lines[at - 1][:column].strip()
    return [kept[at] for at in sorted(kept)]


def _docstrings(tree: ast.Module) -> set[int]:
    """Return the numbers of all lines of texts that stand alone: docstrings, also of values."""
    return {
        at
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for at in range(node.lineno, (node.end_lineno or 0) + 1)
    }
