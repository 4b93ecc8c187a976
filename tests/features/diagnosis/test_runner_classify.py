"""How the table is used; `test_corpus` has what it says."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from dsrun.launcher.features.diagnosis.runner_classify import LONGEST, diagnose, explain
from dsrun.launcher.head.report.report import WorkerFailure

from ...support.cost import LINEAR, growth

FRAME = 'Traceback (most recent call last):\n  File "/t.py", line 3, in f\n'
CLOSED = f"{FRAME}RuntimeError: gloo/transport/tcp/pair.cc:534] Connection closed by peer [n2]\n"
FULL = f"{FRAME}OSError: [Errno 28] No space left on device\n"


def failed(stderr: str = "", code: int = 1, at: float = 1.0, **more: Any) -> WorkerFailure:
    return WorkerFailure(at, 0, 0, "n1", 12, code, stderr=stderr, **more)


def name_of(failure: WorkerFailure) -> str:
    found = diagnose(failure)
    return found.row.name if found else ""


def test_an_exception_that_torch_has_recorded_counts_where_the_output_has_none() -> None:
    assert name_of(failed("bye\n", traceback=FULL)) == "disk-full"


def test_an_exception_on_standard_output_counts() -> None:
    assert name_of(failed(stdout=FULL)) == "disk-full"


def test_what_the_node_has_found_is_said_in_place_of_the_sentence() -> None:
    found = diagnose(failed(FULL, evidence=("disk: /x is full",)))
    assert found is not None
    assert (found.sentence, found.own) == ("/x is full", False)


def test_what_is_shown_cannot_harm_a_terminal_and_is_not_long() -> None:
    found = diagnose(failed(f"{FRAME}NameError: \x1b]0;x\x07{'y' * 2000}\n"))
    assert found is not None
    assert found.sentence.startswith("NameError: \\x1b")
    assert len(found.sentence) == LONGEST


@pytest.mark.parametrize("code", [-signal.SIGKILL, -signal.SIGSEGV, 135, 137, 139])
def test_an_exception_does_not_explain_a_signal(code: int) -> None:
    assert name_of(failed(FULL, code)) == ""


def test_a_shell_shows_the_end_of_its_command_by_sigterm() -> None:
    assert name_of(failed(FULL, 128 + signal.SIGTERM)) == "ended"
    assert name_of(failed(FULL, 128 + signal.SIGUSR1)) == "disk-full", "a code of the program's own"


def test_an_abort_while_python_ends_follows_from_the_exception() -> None:
    abort = "Fatal Python error: Aborted\n\nCurrent thread 0x7f (most recent call first):\n"
    frame = '  File "/t.py", line 3 in f\n'
    assert name_of(failed(f"{abort}{frame}", -signal.SIGABRT)) == "crashed"
    assert name_of(failed(f"{FRAME}ValueError: x\n{abort}{frame}", -signal.SIGABRT)) == ""


def test_the_first_failure_counts_unless_it_may_be_a_consequence() -> None:
    found = explain([failed(FULL, at=2.0), failed(f"{FRAME}NameError: x\n")])
    assert found is not None
    assert found.row.name == "mistake"
    found = explain([failed(FULL, at=2.0)._replace(rank=3), failed(CLOSED)])
    assert found is not None
    assert found.row.name == "disk-full"
    assert found.sentence.startswith("rank 3 (n1) failed")


def test_a_rank_that_hangs_after_its_exception_is_behind_the_end_of_connections_to_it() -> None:
    hung = failed(f"{FRAME}ValueError: boom\n", at=0.0)._replace(rank=3)
    found = explain([failed(CLOSED)], (), [hung])
    assert found is not None
    assert found.sentence == (
        "rank 3 (n1) had already raised an exception, and had not exited: ValueError: boom (t.py:3)"
    )
    assert explain([failed(FULL)], (), [hung]) == explain([failed(FULL)]), "it has its own cause"
    gone_on = hung._replace(stderr=hung.stderr + "step\n" * 20)
    assert explain([failed(CLOSED)], (), [gone_on]) == explain([failed(CLOSED)])


def test_a_rank_that_was_killed_is_behind_the_end_of_connections_to_it() -> None:
    found = explain([failed(CLOSED), failed(code=-9, at=2.0)._replace(rank=3)])
    assert found is not None
    assert "rank 3 (n1) failed, which closed the connections to it: it was killed by signal 9" in (
        found.sentence
    )
    assert found.verdict.kind.value == "unknown"


def test_a_rank_that_was_done_is_behind_the_end_of_connections_to_it() -> None:
    found = explain([failed(CLOSED, at=2.0)], [(1.5, 3, "n2"), (1.0, 4, "n2"), (2.5, 5, "n2")])
    assert found is not None
    assert found.sentence.startswith("rank 3 (n2) had already exited with code 0")
    assert found.verdict.kind.value == "unknown"
    found = explain([failed(FULL, at=2.0)], [(1.5, 3, "n2")])
    assert found is not None
    assert found.row.name == "disk-full"


def test_consequences_alone_stay_what_they_are() -> None:
    found = explain([failed(CLOSED), failed(CLOSED, at=2.0), failed("bye", at=3.0)])
    assert found is not None
    assert found.row.name == "rank-closed"


def test_an_end_with_another_task_is_the_consequence_of_that() -> None:
    line = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-04-29T23:36 DUE TO TASK FAILURE"
    ended = failed(f"{line} ***\n", code=-signal.SIGTERM)
    assert name_of(ended) == "task-failed"
    assert name_of(failed(f"{FULL}{line} ***\n")) == "disk-full", "its own exception was before"
    found = explain([ended, failed(FULL, at=2.0)._replace(rank=3)])
    assert found is not None
    assert found.row.name == "disk-full"


def test_a_report_does_not_wait_for_it() -> None:
    """Up to the longest output that nodes send, of four failures, it takes linear time."""

    def explain_four(size: int) -> None:
        text = ("x" * 79 + "\n") * (size // 80) + CLOSED
        explain([failed(text[-16384:], at=float(at)) for at in range(4)])

    explain_four(80)  # imports, and compiles
    assert growth(explain_four, 1024) < LINEAR
