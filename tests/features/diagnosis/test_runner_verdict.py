"""The verdict on a job."""

from __future__ import annotations

import signal

import pytest

from dsrun.launcher.common.errors import LOST, NO_PROGRESS
from dsrun.launcher.control.facts import Facts
from dsrun.launcher.control.messages import WorkerExit
from dsrun.launcher.features.diagnosis.runner_verdict import explanation, of_exit
from dsrun.launcher.head.report.report import NOT_FINITE, JobReport, Loss, WorkerFailure
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.verdict import FailureClass, Retry

from ...support.node_facts import facts

FRAME = 'Traceback (most recent call last):\n  File "/t.py", line 3, in f\n'
JOB = JobReport("id", 2, ("n1",), 0.0, 1.0)


@pytest.mark.parametrize(
    ("report", "kind", "retry"),
    [
        (JOB._replace(stop_signal=signal.SIGTERM), FailureClass.PREEMPTED, Retry.YES),
        (JOB._replace(stop_signal=signal.SIGINT), FailureClass.UNKNOWN, Retry.UNKNOWN),
        (JOB._replace(broken_pipe=True), FailureClass.UNKNOWN, Retry.UNKNOWN),
        (
            JOB._replace(losses=(Loss(1.0, "n1", "no heartbeat", LOST),)),
            FailureClass.NODE,
            Retry.YES,
        ),
        (
            JOB._replace(losses=(Loss(1.0, "", "rank 1 hangs", NO_PROGRESS),)),
            FailureClass.UNKNOWN,
            Retry.UNKNOWN,
        ),
    ],
)
def test_a_job_that_was_ended(report: JobReport, kind: FailureClass, retry: Retry) -> None:
    found = explanation(report).verdict
    assert found[:2] == (kind, retry)


@pytest.mark.parametrize(
    "loss",
    [
        Loss(1.0, "n1", "no heartbeat", LOST),
        Loss(1.0, "", "rule loss: loss of rank 2 (n1) is nan: 'loss nan'", NO_PROGRESS),
    ],
)
def test_why_a_node_was_lost_or_dsrun_has_ended_the_job(loss: Loss) -> None:
    found = explanation(JOB._replace(losses=(loss,)))
    assert found.verdict.sentence == loss.reason
    assert found.lines == [], "the headline says it"


def test_a_job_whose_numbers_are_not_finite_gets_the_advice_of_a_program_that_says_so() -> None:
    loss = Loss(1.0, "", "rule x: loss of rank 2 (n1) is nan", NO_PROGRESS, sign=NOT_FINITE)
    found = explanation(JOB._replace(losses=(loss,)))
    assert found.verdict[:3] == (FailureClass.SCRIPT, Retry.UNKNOWN, loss.reason)
    assert found.lines == [f"try: {found.verdict.advice}"]
    assert "earlier checkpoint" in found.verdict.advice


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_worker_that_a_scheduler_has_ended(number: signal.Signals) -> None:
    found = of_exit("n1", WorkerExit(0, 12, -number, signalled=False, clock=1.0), "")
    assert (found.kind, found.retry) == (FailureClass.PREEMPTED, Retry.YES)


def failed(stderr: str, code: int = 1) -> JobReport:
    """The end of a job whose first failure was on n1."""
    return JOB._replace(failures=(WorkerFailure(0.5, 0, 0, "n1", 12, code, stderr=stderr),))


def test_the_evidence_of_the_node_counts_at_once() -> None:
    ended = WorkerExit(
        0, 12, -9, signalled=False, clock=1.0, evidence="memory: the machine was full"
    )
    found = of_exit("n1", ended, "step 1\n")
    assert (found.kind, found.sentence) == (FailureClass.MEMORY, "the machine was full")


def test_the_output_of_other_ranks_may_show_what_is_behind_a_failure() -> None:
    ended = WorkerExit(0, 12, 1, signalled=False, clock=1.0)
    closed = f"{FRAME}RuntimeError: Connection closed by peer [n2]:5\n"
    assert of_exit("n1", ended, closed).kind is FailureClass.NETWORK
    assert of_exit("n1", ended, closed, ["step 1\n"]).kind is FailureClass.NETWORK
    others = ["step 1\n", f"{FRAME}NameError: name 'x' is not defined\n"]
    assert of_exit("n1", ended, closed, others).kind is FailureClass.SCRIPT


def test_the_programs_own_words_are_not_repeated() -> None:
    found = explanation(failed(f"{FRAME}NameError: name 'x' is not defined\n"))
    assert found.verdict.sentence == "NameError: name 'x' is not defined (t.py:3)"
    assert found.lines == []


def test_a_difference_between_nodes_is_named() -> None:
    known = (("n1", facts(versions={})), ("n2", facts(versions={"peft": "0.9"})))
    missing = f"{FRAME}ModuleNotFoundError: No module named 'peft'\n"
    found = explanation(failed(missing)._replace(facts=known))
    assert found.lines[0] == "why: peft is missing on n1, but installed on n2 (0.9)"


TORCHLESS = failed(f"{FRAME}ModuleNotFoundError: No module named 'torch'\n")


@pytest.mark.parametrize(
    ("path", "shown"), [("/opt/py", "/opt/py"), ("/a b/\x1bpy", "'/a b/\\x1bpy'")]
)
def test_torch_that_no_node_has(path: str, shown: str) -> None:
    known = tuple((name, facts(versions={}, python_path=path)) for name in ("n1", "n2"))
    found = explanation(TORCHLESS._replace(facts=known, ran=(Program("t.py"), "/work")))
    assert found.lines == [
        f"why: torch is not installed for {shown}",
        f"try: {shown} -m pip install torch (or --python)",
    ]
    assert found.verdict[:2] == (FailureClass.SCRIPT, Retry.NO)


def test_torch_that_only_other_nodes_have() -> None:
    known = (("n1", facts(versions={})), ("n2", facts()))
    found = explanation(TORCHLESS._replace(facts=known, ran=(Program("t.py"), "/work")))
    assert found.lines[0] == "why: torch is missing on n1, but installed on n2 (2.4.0+cu121)"


@pytest.mark.parametrize(
    ("known", "program"),
    [
        ((), Program("t.py")),  # --no_check
        ((("n1", facts(versions={})),), Program("run.sh", no_python=True)),
        ((("n1", facts()),), Program("t.py")),  # another Python has said so
    ],
)
def test_torch_that_is_missing_for_a_python_that_is_not_known(
    known: tuple[tuple[str, Facts], ...], program: Program
) -> None:
    found = explanation(TORCHLESS._replace(facts=known, ran=(program, "/work")))
    assert found.lines == [
        "why: torch is not installed for the Python of this worker",
        "try: install it there (PYTHON -m pip install torch), or choose another Python (--python)",
    ]


def test_a_module_that_the_only_node_does_not_have() -> None:
    missing = failed(f"{FRAME}ModuleNotFoundError: No module named 'omegaconf'\n")
    known = (("n1", facts(python_path="/opt/py")),)
    found = explanation(missing._replace(facts=known, ran=(Program("t.py"), "/work")))
    assert found.lines == ["try: install it for /opt/py, or choose another Python (--python)"]
    found = explanation(missing._replace(facts=(*known, ("n2", facts()))))
    assert found.lines == ["try: install the same versions on all nodes; dsrun-check compares them"]


def test_how_the_program_was_started_comes_first() -> None:
    text = "usage: t.py\nt.py: error: unrecognized arguments: --local_rank=0\n"
    found = explanation(failed(text, 2)._replace(ran=(Program("t.py"), "/work")))
    assert found.lines[1].startswith("try: give --no_local_rank")
