"""What keeps the code small: bounds on files and functions, and a test file for each module.

Whoever meets a bound divides by reasons to exist, and does not raise it.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

import pytest

from .support.checkout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Function = ast.FunctionDef | ast.AsyncFunctionDef

LAUNCHER, TESTS = CHECKOUT / "launcher", CHECKOUT / "tests"
MODULES = sorted(LAUNCHER.rglob("*.py"))


@cache
def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@cache
def functions(path: Path) -> tuple[Function, ...]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return tuple(node for node in ast.walk(tree) if isinstance(node, kinds))


def all_functions() -> Iterator[tuple[str, Function]]:
    """Every function of the launcher, with where it is."""
    for path in MODULES:
        for function in functions(path):
            yield f"{path.relative_to(CHECKOUT)}:{function.lineno} {function.name}", function


def arguments(function: Function) -> int:
    args = function.args
    named = (*args.posonlyargs, *args.args, *args.kwonlyargs)
    return len(named) + bool(args.vararg) + bool(args.kwarg)


def test_few_modules_and_folders_are_at_the_top() -> None:
    assert len(list(LAUNCHER.glob("*.py"))) <= 6
    assert len(list(LAUNCHER.glob("*/__init__.py"))) <= 12


@pytest.mark.parametrize(
    ("folder", "bound"), [(LAUNCHER, 400), (TESTS, 700)], ids=["launcher", "tests"]
)
def test_no_file_is_long(folder: Path, bound: int) -> None:
    assert [path for path in folder.rglob("*.py") if lines(path) >= bound] == []


def test_no_function_has_more_than_40_lines() -> None:
    long = [at for at, one in all_functions() if (one.end_lineno or 0) - one.lineno >= 40]
    assert long == []


def test_no_constructor_takes_more_than_seven_arguments() -> None:
    """A NamedTuple, which declares its fields, has no constructor of its own and may have more."""
    constructors = [one for one in all_functions() if one[1].name == "__init__"]
    assert [at for at, one in constructors if arguments(one) > 1 + 7] == []


def mirrored(path: Path) -> Path:
    return TESTS / path.relative_to(LAUNCHER).parent / f"test_{path.name}"


@pytest.mark.parametrize("room", ["head", "node", "control"])
def test_every_module_has_its_tests_in_the_same_place(room: str) -> None:
    """But for those without a function, which declare values and do nothing."""
    modules = [path for path in (LAUNCHER / room).rglob("*.py") if functions(path)]
    assert modules
    assert [path for path in modules if not mirrored(path).exists()] == []
