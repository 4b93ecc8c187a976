"""The regular expressions of the whole product: no text takes any of them long."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import dsrun.launcher

from .support.regex_steps import MOST_STEPS, found, is_linear, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

LAUNCHER = Path(dsrun.launcher.__file__).parent

ANCHORED = {"match", "fullmatch"}
SEARCHES = {*ANCHORED, "search", "findall", "finditer", "split", "sub", "subn"}


class Use(NamedTuple):
    """A regular expression, and whether it is only tried at the beginning of a text."""

    pattern: str
    flags: int
    anchored: bool


def attribute(node: ast.AST) -> tuple[ast.expr | None, str]:
    """Return an object and the name of its method, if this is one."""
    return (node.value, node.attr) if isinstance(node, ast.Attribute) else (None, "")


def is_re(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Name) and node.id == "re"


def uses(tree: ast.Module, names: dict[str, object]) -> Iterator[Use]:
    """Yield the regular expressions of a module whose text is known without a run."""
    searched = {
        (owner.id, method)
        for node in ast.walk(tree)
        for owner, method in [attribute(node)]
        if isinstance(owner, ast.Name) and method in SEARCHES
    }
    for name, value in names.items():
        if isinstance(value, re.Pattern):
            text = value.pattern if isinstance(value.pattern, str) else value.pattern.decode("l1")
            flags = value.flags & (re.MULTILINE | re.DOTALL | re.IGNORECASE | re.VERBOSE)
            methods = {method for owner, method in searched if owner == name} or {"search"}
            yield Use(text, flags, methods <= ANCHORED)
    for node in (one for one in ast.walk(tree) if isinstance(one, ast.Call)):
        owner, method = attribute(node.func)
        if is_re(owner) and method in SEARCHES:
            pattern = node.args[0]
            value = names.get(pattern.id) if isinstance(pattern, ast.Name) else None
            value = pattern.value if isinstance(pattern, ast.Constant) else value
            if isinstance(value, str):
                several = re.MULTILINE if "MULTILINE" in ast.unparse(node) else 0
                yield Use(value, several, method in ANCHORED)


def all_uses() -> dict[str, Use]:
    """Return the regular expressions of the launcher by module and number."""
    found = {}
    for path in sorted(LAUNCHER.rglob("*.py")):
        text = path.read_text()
        name = ".".join(path.relative_to(LAUNCHER).with_suffix("").parts)
        if "import re\n" in text and "sitecustomize" not in name:
            names = vars(import_module(f"dsrun.launcher.{name}"))
            for number, use in enumerate(dict.fromkeys(uses(ast.parse(text), names))):
                found[f"{name}-{number}"] = use
    return found


USES = all_uses()

SHORT_TEXTS = {
    "common.wrap": "what is broken has no spaces at its end",
    "features.stacks.runner_frames": "a frame has at most `LONGEST` characters",
    "features.watch.runner_steps": "at most `LONGEST` bytes of a line are read",
}
"""Modules with a pattern whose steps grow faster, and why no text takes it long."""

PIECES = ("a", "1", " ", "\n", ".", "a.", "1.", "1 ", "/a", "a=", "\x1b[")
"""What hostile text repeats."""


def pieces(pattern: str) -> list[str]:
    """Return what a hostile text for this pattern may repeat: its own signs, too."""
    signs = re.findall(r"[^\w\s\\(){}|?*+^$]", pattern)
    return sorted({*PIECES, *filter(str.isascii, signs)})


@pytest.mark.parametrize(
    "name", [*filter(lambda name: name.rpartition("-")[0] not in SHORT_TEXTS, USES)]
)
def test_every_pattern_takes_linear_steps(name: str) -> None:
    use = USES[name]
    slow = [
        piece
        for piece in pieces(use.pattern)
        if not is_linear(use.pattern, piece, use.flags, anchored=use.anchored)
    ]
    assert slow == [], use.pattern


def test_the_patterns_are_found() -> None:
    assert len(USES) > 50


@pytest.mark.parametrize(
    ("pattern", "piece", "linear"),
    [
        (r"a*b", "a", False),
        (r"x?a+b", "a", False),
        (r"(?<!a)a+b", "a", True),
        (r"a.{0,400}b", "a", True),
        (r"^x.*$", "x", True),
        (r"\bx\b", "x", True),
        (r"(?i)X+?y", "x", False),
    ],
)
def test_what_is_linear(pattern: str, piece: str, linear: bool) -> None:
    assert is_linear(pattern, piece) == linear


def test_an_exponential_search_is_given_up() -> None:
    assert steps(r"(?:a|a)*b", "a" * 64) > MOST_STEPS


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"x(?=y)|[^a-c\s]+$", "axy\nd e"),
        (r"(?P<n>\d+)-(?P=n)?(?!0)\Z", "12-12"),
        (r"(?<=a)\w{2,3}?\b", "abcd a12"),
        (r"a.(?:b|c)*?\.", "axbcb."),
    ],
)
def test_steps_are_taken_where_the_real_matcher_finds_the_same(pattern: str, text: str) -> None:
    assert found(pattern, text) == [one.span() for one in re.finditer(pattern, text)]
