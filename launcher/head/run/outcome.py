"""How a run has ended: its report, and the END of its nodes."""

from __future__ import annotations

from ...control import messages
from ..report.report import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..report.report import Report
    from .run import Run


def report(run: Run) -> Report:
    """Return the report of a run as of now."""
    size = run.restarts.world_size(run.plan.world_size or 0)
    clean = run.spec.supervision.graceful_term_ok
    known = run.record.report(run.nodes, size, graceful_term_ok=clean)
    facts = ((node.name, node.hello.facts) for node in run.nodes if node.hello)
    ran = run.plan.program, run.spec.workdir
    known = known._replace(ran=ran, facts=tuple((name, one) for name, one in facts if one))
    return _explained(known, run.spec.supervision.no_requeue_code) if known.exit_code else known


def _explained(known: Report, no_requeue_code: int) -> Report:
    """Return the report of a job that has failed with the reason, and the exit code that follows.

    Args:
        known: the report without it.
        no_requeue_code: for a job that would fail again; 0 for none.
    """
    from ...specs.verdict import Retry
    from ..deaths.verdict import explanation

    found = explanation(known)
    fails_again = found.verdict.retry is Retry.NO
    return known._replace(explanation=found, no_requeue_code=no_requeue_code * fails_again)


def end_message(run: Run) -> messages.End:
    """Return END: the exit code, and the report for node launchers started with --no_ssh."""
    if run.error is not None:
        return messages.End(run.error.exit_code, f"dsrun: {run.error}\n")
    known = report(run)
    text = words(known)
    return messages.End(known.exit_code, f"{text}\n" if text else "")
