"""How well the table explains the ends of programs: the tails of `corpus/`, one file per class.

The formats are those of the programs and libraries that print them; what they speak of is made up.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.diagnosis.runner_classify import explain
from dsrun.launcher.head.report.report import WorkerFailure

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parent / "corpus"

BEGIN = """Traceback (most recent call last):
  File "/work/train.py", line 88, in <module>
    main()
  File "/work/train.py", line 41, in main
    train(model, loader)
"""

UNKNOWN = "unknown"


@cache
def read(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the tails in a folder by class."""
    files = sorted(folder.glob("*.toml"))
    return {path.stem: tomllib.loads(path.read_text(encoding="utf-8"))["tail"] for path in files}


def tails() -> dict[str, list[dict[str, Any]]]:
    return read(FOLDER)


ALL = [(kind, tail) for kind, found in tails().items() for tail in found]


def text_of(tail: dict[str, Any]) -> str:
    return tail["says"] if "says" in tail else f"{BEGIN}{tail['raised']}\n"


def failure(text: str, tail: dict[str, Any]) -> WorkerFailure:
    evidence = tuple(tail.get("evidence", ()))
    return WorkerFailure(1.0, 0, 0, "n1", 12, tail.get("code", 1), stderr=text, evidence=evidence)


def answer(text: str, tail: dict[str, Any]) -> tuple[str, str, str]:
    """Return class, retry and sentence for a tail."""
    others = [
        WorkerFailure(2.0, rank, 0, "n2", 13, 1, stderr=one)
        for rank, one in enumerate(tail.get("others", ()), 1)
    ]
    found = explain([failure(text, tail), *others])
    if found is None:
        return UNKNOWN, UNKNOWN, ""
    verdict = found.verdict
    return verdict.kind.value, verdict.retry.value, verdict.sentence


def test_there_are_enough() -> None:
    assert sum(len(found) for kind, found in tails().items() if kind != UNKNOWN) >= 120
    assert len(tails()[UNKNOWN]) >= 30


def test_the_right_class_is_named_and_never_a_wrong_one() -> None:
    named = [(kind, tail["name"], answer(text_of(tail), tail)[0]) for kind, tail in ALL]
    wrong = [one for one in named if one[2] not in {one[0], UNKNOWN}]
    missed = [one for one in named if one[2] != one[0]]
    assert wrong == []
    assert len(missed) <= len(named) * 0.05, missed


@pytest.mark.parametrize(("kind", "tail"), ALL, ids=[f"{k}: {t['name']}" for k, t in ALL])
def test_a_tail(kind: str, tail: dict[str, Any]) -> None:
    found, retry, sentence = answer(text_of(tail), tail)
    assert found == kind
    assert retry == tail.get("retry", retry)
    assert tail.get("sentence", "") in sentence


VARIANTS: dict[str, Callable[[str], str]] = {
    "after other lines": lambda text: "epoch 1\nstep 10: loss 2.31\n" * 20 + text,
    "with the prefix of torch": lambda text: "".join(
        f"[rank3]: {line}\n" for line in text.split("\n")
    ),
    "with the warning about the group": lambda text: (
        f"{text.rstrip()}\n[rank0]:[W1101 10:00:00.1 ProcessGroupNCCL.cpp:1496] Warning: WARNING:"
        " destroy_process_group() was not called before program exit\n"
    ),
    "with colours and a progress bar": lambda text: (
        "\r 10%|#         | 1/10\r 20%|##        | 2/10\n" + text.replace("Error", "\x1b[31mError")
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_stands_around_changes_nothing(variant: str) -> None:
    change = VARIANTS[variant]
    raised = [(kind, tail) for kind, tail in ALL if "raised" in tail]
    found = [(kind, tail["name"], answer(change(text_of(tail)), tail)[0]) for kind, tail in raised]
    assert [one for one in found if one[0] != one[2]] == []
