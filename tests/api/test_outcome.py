"""The report of a rank, unpickled."""

from __future__ import annotations

import json
import pickle

import pytest

from dsrun.launcher.api.outcome import Outcome, outcome_of


def report(body: bytes, state: str = "returned", size: int | None = None) -> bytes:
    head = {"state": state, "words": "E: e", "text": "Trace", "size": len(body)}
    if size is not None:
        head["size"] = size
    return json.dumps(head).encode() + b"\n" + body


def test_a_value() -> None:
    assert outcome_of(bytearray(report(pickle.dumps([1])))) == Outcome([1])


def test_an_exception_with_and_without_itself() -> None:
    found = outcome_of(report(pickle.dumps(KeyError("k")), "raised"))
    assert found is not None
    assert isinstance(found.error, KeyError)
    assert found[2:] == ("E: e", "Trace", True)
    assert outcome_of(report(b"", "raised")) == Outcome(None, None, "E: e", "Trace", True)
    other = outcome_of(report(pickle.dumps(7), "raised"))
    assert other == Outcome(None, None, "E: e", "Trace", True)


def test_a_value_that_cannot_be_unpickled_here() -> None:
    found = outcome_of(report(b"cno_such_module\nx\n."))
    assert found is not None
    assert found.raised
    assert isinstance(found.error, ModuleNotFoundError)
    assert found.words == "its result cannot be unpickled here: No module named 'no_such_module'"


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"not json\n", b"[]\n", b'{"state": 1}\n', report(b"abc", size=4), b"\xff\n"],
)
def test_what_is_no_whole_report(data: bytes) -> None:
    assert outcome_of(data) is None
