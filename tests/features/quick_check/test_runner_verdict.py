"""What follows from what was found."""

from __future__ import annotations

from dsrun.launcher.control.messages import Hello
from dsrun.launcher.features.quick_check.runner_answers import Answer
from dsrun.launcher.features.quick_check.runner_findings import finding
from dsrun.launcher.features.quick_check.runner_verdict import CheckVerdict

HELLO = Hello("1", "h", "m", "3", "cpu", (), 2, None, (), (), 1.0)
GOOD = Answer(hello=HELLO)
FULL = finding("shm-full", ["n1"], "no room")
LOW = finding("nofile", ["n1", "n2"], "few files")


def verdict(*, strict: bool = False) -> CheckVerdict:
    answers = {
        "n1": GOOD,
        "n2": GOOD,
        "n3": Answer(hello=HELLO._replace(problems=("no Python",))),
        "n4": Answer(error="no answer within 60 s"),
        "n5": GOOD,
    }
    return CheckVerdict(answers, {"n6": "no route\x1b[2J"}, ["n3: no Python"], [FULL, LOW], strict)


def test_errors_and_warnings_are_lines() -> None:
    found = verdict()
    assert [line.partition("; ")[0] for line in found.errors] == [
        "n6: no route\\x1b[2J",
        "n4: no answer within 60 s",
        "n3: no Python",
        "n1: no room",
    ]
    assert [line.partition("; ")[0] for line in found.warnings] == ["n1, n2: few files"]
    strict = verdict(strict=True)
    assert len(strict.errors) == 5
    assert strict.warnings == []


def test_each_node_has_a_state() -> None:
    found = verdict()
    states = {name: found.state(name).words for name in (*found.answers, *found.missing)}
    assert states == {
        "n1": "1 error",
        "n2": "1 warning",
        "n3": "1 error",
        "n4": "no answer",
        "n5": "ok",
        "n6": "not reached",
    }
    assert verdict(strict=True).state("n1").words == "2 errors"


def test_only_nodes_without_problems_are_measured() -> None:
    found = verdict()
    assert [name for name in (*found.answers, *found.missing) if found.usable(name)] == [
        "n1",
        "n2",
        "n5",
    ]
