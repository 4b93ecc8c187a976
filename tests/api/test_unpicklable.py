"""Names for what cannot be pickled."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest

from dsrun.launcher.api.unpicklable import MANY, culprit

if TYPE_CHECKING:
    from collections.abc import Callable

LOCK = threading.Lock()


class Model:
    def __init__(self) -> None:
        self.name = "m"
        self.guard = threading.Lock()

    def train(self) -> None:
        """Train."""


def with_global() -> object:
    return LOCK


def with_closure() -> Callable[[], object]:
    pipe = threading.Lock()
    return lambda: pipe


def with_default(one: int = 0, *, lock: object = LOCK) -> object:
    return one, lock


def with_inner_function() -> object:
    def inner() -> object:
        return LOCK

    return inner()


def itself() -> list[Any]:
    found: list[Any] = [LOCK]
    found.insert(0, found)
    return found


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (LOCK, "x"),
        ([1, {"a": (LOCK,)}], "x[1]['a'][0]"),
        ({LOCK}, "an item of x"),
        (Model(), "x.guard"),
        (Model().train, "x.__self__.guard"),
        (functools.partial(print, 1, file=LOCK), "x.keywords['file']"),
        (with_closure(), "pipe in x"),
        (itself(), "x[1]"),
    ],
    ids=["itself", "nested", "set", "attribute", "method", "partial", "closure", "cycle"],
)
def test_the_innermost_is_named(value: object, expected: str) -> None:
    found = culprit([("first", 1), ("x", value)], cloudpickle.dumps)
    assert found is not None
    assert found[0] == expected
    assert "cannot pickle '_thread.lock' object" in str(found[1])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (with_global, "LOCK in x"),
        (with_default, "default lock of x"),
        (with_inner_function, "LOCK in x"),
    ],
)
def test_functions_of_a_program_are_looked_into(
    function: Callable[..., object], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As those of a program, which are sent as code, and not by the name of their module.
    monkeypatch.setattr(function, "__module__", "__main__")
    found = culprit([("x", function)], cloudpickle.dumps)
    assert found is not None
    assert found[0] == expected


def test_what_can_be_pickled_is_not_named() -> None:
    assert culprit([("x", [1, Model])], cloudpickle.dumps) is None


def test_a_large_value_is_not_searched_forever() -> None:
    found = culprit([("x", [0] * MANY * 2 + [LOCK])], cloudpickle.dumps)
    assert found is not None
    assert found[0] == "x"
