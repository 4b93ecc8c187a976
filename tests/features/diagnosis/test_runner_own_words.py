"""Words that a program only quotes."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.diagnosis.runner_classify import explain
from dsrun.launcher.features.diagnosis.runner_own_words import tells
from dsrun.launcher.specs.verdict import FailureClass

from .test_corpus import BEGIN, failure

WORDS = (
    "CUDA out of memory. Tried to allocate 2.00 GiB",
    "[Errno 28] No space left on device",
    "Connection reset by peer",
    "Address already in use",
    "size mismatch for head.weight",
    "uncorrectable ECC error",
    "401 Client Error",
)


def is_explained(exception: str) -> bool:
    found = explain([failure(f"{BEGIN}{exception}\n", {})])
    return found is not None and found.row.kind is not FailureClass.UNKNOWN


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize(
    "form",
    [
        'evalkit.GoldenDiffers: report of case 14 ("{}, simulated") is not the golden one',
        "lab.errors.ReplayMismatch: step 3 should have ended with {} and did not",
        "WrongReport: line 7 is {}",
        "lab.ReportDiffers: 2 lines differ\n- {}\n+ nothing",
        "AssertionError: the text '{}' is not in the report",
        'ValueError: report of case 14 ("{}") is not the golden one',
    ],
)
def test_a_quotation_is_no_evidence(form: str, words: str) -> None:
    assert not is_explained(form.format(words))


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize(
    "form",
    [
        "lab.errors.TrainingFailed: {}",
        "lab.errors.TrainingFailed: RuntimeError: {}",
        "RuntimeError: Worker failed with error '{}', please check the stack trace above",
        'RuntimeError: Error: Warmup(Generation("{}"))',
        "RuntimeError: rank 3: {}",
    ],
)
def test_what_a_message_begins_with_and_what_is_a_reason_are(form: str, words: str) -> None:
    assert is_explained(form.format(words)) or words in {"Connection reset by peer"}


@pytest.mark.parametrize(
    ("line", "evidence"),
    [
        ("GPU 3: GPU has fallen off the bus", True),
        ("2026-03-02 INFO drill 3: GPU has fallen off the bus", False),
        ("2026-03-02 WARNING drill 3: the text 'GPU has fallen off the bus' was shown", False),
        ('the operator wrote "GPU has fallen off the bus"', False),
        ("GPU has fallen off the bus: INFO follows", True),
    ],
)
def test_a_line_that_quotes_or_brings_news_is_no_evidence(line: str, evidence: bool) -> None:
    assert tells(line, ("GPU has fallen off the bus", "other words")) is evidence


def test_a_program_that_shows_texts_of_failures_has_not_failed_of_them() -> None:
    lines = "".join(f"2026-03-02 INFO drill {n}: '{words}' was shown\n" for n, words in NEWS)
    assert explain([failure(lines, {})]) is None


NEWS = [
    *enumerate(WORDS),
    (7, "NCCL WARN Bootstrap : no socket interface found"),
    (8, "error: unrecognized arguments: --x"),
    (9, "libx.so: cannot open shared object file"),
]
