"""The ending of a run: its report, made from the state of the run."""

from __future__ import annotations

from ..doors import REPORT_SECTIONS
from ..report.ending import Ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..report.report import JobReport
    from ..run.run_view import RunView


def ending_of(run: RunView) -> Ending:
    """Return the ending of a run from the facts known now."""
    return Ending(run.spec.job_id, run.error or _report(run))


def fails(run: RunView) -> bool:
    """Return whether a run ends with a failure, from the facts known now."""
    return run.error is not None or bool(_known(run).exit_code)


def _known(run: RunView) -> JobReport:
    clean = run.spec.supervision.graceful_term_ok
    return run.record.report(run.nodes, run.world_size, graceful_term_ok=clean)


def _report(run: RunView) -> JobReport:
    known = _known(run)
    told = [(node.name, node.hello) for node in run.nodes if node.hello]
    known = known._replace(
        ran=(run.plan.program, run.spec.workdir),
        facts=tuple((name, hello.facts) for name, hello in told if hello.facts),
        pythons=tuple((name, hello.python) for name, hello in told if hello.python),
        python_origin=run.spec.origin.python,
        sections=REPORT_SECTIONS,
    )
    return _explained(known, run.spec.supervision.no_requeue_code) if known.exit_code else known


def _explained(known: JobReport, no_requeue_code: int) -> JobReport:
    """Return the report of a failed job with its explanation and the resulting exit code.

    Args:
        known: the report without an explanation.
        no_requeue_code: the exit code for a job that would fail again; 0 for none.
    """
    from ...features.diagnosis.runner_verdict import explanation
    from ...specs.verdict import Retry

    found = explanation(known)
    fails_again = found.verdict.retry is Retry.NO
    return known._replace(explanation=found, no_requeue_code=no_requeue_code * fails_again)
