"""What can be planted in a module, and what is left alone."""

from __future__ import annotations

import pytest

from . import planted_faults
from .support.faults import BEHAVIOUR, faults_of, is_python


def spoiled(source: str) -> set[str]:
    """Return all that can become of a source."""
    found = {fault.spoil(source) for fault in faults_of(source)}
    return set(filter(is_python, found))


@pytest.mark.parametrize(
    ("source", "faulty"),
    [
        ("f(a < b)", {"f(a <= b)"}),
        ("f(a is not b)", {"f(a is b)"}),
        ("f(a in (b))", {"f(a not in (b))"}),
        ("f(é == 'x')", {"f(é != 'x')", 'f(é == "")'}),
        ("f(a and (b))", {"f(a or (b))"}),
        ("f(not a)", {"f(a)"}),
        ("f((a, b))", {"f((a,))", "f((b,))"}),
        ("f({a: b, c: d})", {"f({a: b})", "f({c: d})"}),
        ("f(x=True)", {"f(x=False)"}),
        ("a = f(1)", {"a = f(2)"}),
        ("a = b - c", set()),
        ("a = f(b - c)", {"a = f(b + c)"}),
        ("if a:\n    b = c", {"if (not (a)):\n    b = c"}),
        ("f(a if b else c)", {"f(a if (not (b)) else c)"}),
        ("a = [A.B] and A.C", {"a = [A.C] and A.C", "a = [A.B] and A.B", "a = [A.B] or A.C"}),
        ("a = A.B", set()),
        ("for a in b:\n    break", {"for a in b:\n    continue"}),
        (
            "def f() -> None:\n    a = b\n    c = d",
            {"def f() -> None:\n    a = b\n    return\n    c = d"},
        ),
    ],
)
def test_what_can_be_planted(source: str, faulty: set[str]) -> None:
    dropped = {"pass"} if source.startswith("f(") else set()
    assert spoiled(source) == faulty | dropped


@pytest.mark.parametrize(
    "source",
    [
        '"""Text with 1 < 2."""',
        "LIMIT = 3",
        "FIRST: int = a",
        "class Phase(IntEnum):\n    STARTING = 0",
        "import a",
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    a = f(1)",
        "raise Error(f'{1 + 2}', True)",
        "a = f'{b < 1}'",
        "a = zip(b, c, strict=True)",
        "a = loop.call_later(3, b)",
        "__all__ = ['a', 'b']",
        "def f(a: Literal[1, 2]) -> Literal[True]: a",
    ],
)
def test_what_is_left_alone(source: str) -> None:
    assert spoiled(source) == set()


def test_a_seed_chooses_the_same_faults_of_a_module_whatever_else_is_chosen() -> None:
    names = [one for one in planted_faults.modules() if one.startswith("launcher/node/")]
    guard = "launcher/node/guard.py"
    assert len({one.module for one in planted_faults.choose(names, len(names) // 2, 3)}) == (
        len(names) // 2
    )
    among_all = [
        one for one in planted_faults.choose(names, 2 * len(names), 3) if one.module == guard
    ]
    assert among_all == planted_faults.choose([guard], len(among_all), 3)
    assert planted_faults.choose([guard], 20, 3) != planted_faults.choose([guard], 20, 4)


def test_only_some_kinds_can_be_asked_for() -> None:
    guard = "launcher/node/guard.py"
    chosen = planted_faults.choose([guard], 1000, 3, BEHAVIOUR)
    assert {one.fault.kind for one in chosen} == set(BEHAVIOUR)


def test_faults_are_planted_in_features_too() -> None:
    assert "launcher/features/hold/runner.py" in planted_faults.modules()


def test_the_tests_of_a_module_stand_where_it_stands() -> None:
    assert planted_faults.tests_of("launcher/node/guard.py") == ["tests/node/test_guard.py"]
    assert planted_faults.tests_of("launcher/node/none_such.py") == []


def test_tests_are_those_of_the_module_with_the_longest_name() -> None:
    start = "tests/head/run/test_run_start.py"
    assert start in planted_faults.tests_of("launcher/head/run/run_start.py")
    assert start not in planted_faults.tests_of("launcher/head/run/run.py")
    assert "tests/features/elastic/test_runner_rounds_ends.py" in (
        planted_faults.tests_of("launcher/features/elastic/runner_rounds.py")
    )
