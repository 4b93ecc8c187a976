"""The verdict on a job, or on one failure; for imports, what differs between nodes."""

from __future__ import annotations

import re
import signal

from ...common.errors import NO_PROGRESS
from ...common.text import plain
from ...head.fleet.hosts import some_of
from ...head.report.report import NOT_FINITE, Loss, WorkerFailure
from ...specs.verdict import Explanation, FailureClass, Retry, Verdict
from .runner_classify import explain
from .runner_hints import hint
from .runner_program_rows import NOT_FINITE_ROW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...control.facts import Facts
    from ...control.messages import WorkerExit
    from ...head.report.report import JobReport
    from ...specs.program import Program
    from ...specs.verdict import Verdict
    from .runner_classify import RowMatch

    NodeFacts = Sequence[tuple[str, Facts]]

LOST = Verdict(FailureClass.NODE, Retry.YES)
"""The verdict on the loss of a node, without its reason."""

ENDED = Verdict(FailureClass.PREEMPTED, Retry.YES)
"""The verdict on a job that was ended by a scheduler, or by a person with a scheduler's signal."""

FROM_SCHEDULERS = frozenset({signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU})
"""Signals with which schedulers end a job."""


def explanation(report: JobReport) -> Explanation:
    """Return why a job has failed."""
    if report.stop_signal or report.broken_pipe:
        scheduler = report.stop_signal in FROM_SCHEDULERS and not report.stop_reason
        return Explanation(ENDED if scheduler else Verdict())
    cause = report.cause
    if isinstance(cause, Loss):
        return Explanation(_of_loss(cause)._replace(sentence=plain(cause.reason)))
    return _of_failures(report) if isinstance(cause, WorkerFailure) else Explanation(Verdict())


def _of_loss(loss: Loss) -> Verdict:
    if loss.code != NO_PROGRESS:
        return LOST
    row = NOT_FINITE_ROW
    return Verdict(row.kind, row.retry, "", row.advice) if loss.sign == NOT_FINITE else Verdict()


def _of_failures(report: JobReport) -> Explanation:
    first = report.first
    assert first is not None
    known = hint(first, *report.ran)
    if known is not None:
        return Explanation(known, says_more=True)
    found = explain(report.failures, report.done, report.unended)
    if found is None:
        return Explanation(Verdict())
    for look in (missing_here, versions):
        text = look(found, report.facts)
        if text:
            return Explanation(found.verdict._replace(sentence=text), says_more=True)
    wanted = not_installed(found, report.facts, report.ran[0])
    more = wanted is not None and wanted.sentence != found.verdict.sentence
    return Explanation(wanted or found.verdict, says_more=more or not found.own)


def of_exit(host: str, ended: WorkerExit, output: str, others: Iterable[str] = ()) -> Verdict:
    """Return the verdict on the end of one worker, right after this end.

    Args:
        host: the worker's host.
        ended: the end of the worker.
        output: its newest output, of both streams.
        others: the newest output of each of the other ranks, whose failure may be behind it.
    """
    evidence = tuple(filter(None, ended.evidence.split("\n")))
    first = WorkerFailure(
        ended.clock, ended.rank, 0, host, ended.pid, ended.code, evidence=evidence
    )
    failures = [first._replace(stderr=output)]
    failures += [WorkerFailure(ended.clock, -1, 0, "", 0, 1, stderr=text) for text in others]
    found: RowMatch | None = explain(failures)
    return found.verdict if found else Verdict()


OF_VERSIONS = frozenset({"import", "binary-mismatch", "library-missing", "library-old"})
"""Rows of the table that other versions on one of the nodes would explain."""

ELSEWHERE = (
    "check that its folder exists and is in PYTHONPATH (--sync DIR copies one), or install it on"
    " all nodes; dsrun-check compares packages"
)
"""Advice on a module that no node has installed, and that another folder may have."""

_MODULE = re.compile(r"No module named '?([\w]+)")


def missing_here(found: RowMatch, facts: NodeFacts) -> str:
    """Return the other nodes that have the module missing on this one, or ""."""
    module = _missing_module(found)
    name = module.lower()
    having = {host: one.versions[name] for host, one in facts if name in one.versions}
    if not module or not having or found.host in having:
        return ""
    version = next(iter(having.values()))
    return f"{module} is missing on {found.host}, but installed on {some_of([*having])} ({version})"


def _missing_module(found: RowMatch) -> str:
    """Return the name of the module that an import has not found, "" for another failure."""
    if found.row.name == "torch-missing":
        return "torch"
    match = _MODULE.search(found.sentence) if found.row.name == "module-missing" else None
    return match[1] if match else ""


def not_installed(found: RowMatch, facts: NodeFacts, program: Program | None) -> Verdict | None:
    """Return the package to install for a Python if no node has it; None if unknown."""
    module, here = _missing_module(found), dict(facts).get(found.host)
    of_python = program is not None and not program.no_python
    if not (module and of_python and here) or any(module in one.versions for _, one in facts):
        return None
    from ..quick_check.runner_findings import python_of
    from ..quick_check.runner_versions import no_torch

    if module == "torch":
        sentence, advice = no_torch(here)
        return found.verdict._replace(sentence=sentence, advice=advice)
    if len(facts) > 1:
        if known := _elsewhere(module, found.host, facts):
            return found.verdict._replace(sentence=known[0], advice=known[1])
        sentence = f"{module} is not found on {found.host}"
        return found.verdict._replace(sentence=sentence, advice=ELSEWHERE)
    advice = f"install it for {python_of(here)}, or choose another Python (--python)"
    return found.verdict._replace(advice=advice)


def _elsewhere(module: str, host: str, facts: NodeFacts) -> tuple[str, str] | None:
    """Return the folder of a module on other nodes, and advice; None if they lack the module."""
    folder = next((one.modules[module] for _, one in facts if module in one.modules), "")
    having = [name for name, one in facts if one.modules.get(module) == folder and name != host]
    if not folder or not having:
        return None
    has = "has" if len(having) == 1 else "have"
    absent = f", which does not exist on {host}" if folder in dict(facts)[host].absent else ""
    sentence = f"{module} is not found on {host}; {some_of(having)} {has} it in {folder}{absent}"
    return sentence, f"copy {folder} to {host}, or put it on a file system that all nodes share"


def versions(found: RowMatch, facts: NodeFacts) -> str:
    """Return the version differences between this node and most nodes, or ""."""
    if found.row.name not in OF_VERSIONS:
        return ""
    from ..quick_check.runner_findings import ComparedNode
    from ..quick_check.runner_versions import check

    differing = check([ComparedNode(host, one) for host, one in facts])
    texts = [one.text for one in differing if found.host in one.nodes]
    return f"{found.host} differs from other nodes: {'; '.join(texts)}" if texts else ""
