"""How a run has ended: its report, and the END of its nodes."""

from __future__ import annotations

from ...control import messages
from ..report.words import words

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
    code = run.spec.supervision.no_requeue_code
    return known._replace(no_requeue_code=code) if code and _is_useless(known) else known


def _is_useless(known: Report) -> bool:
    """Return whether a job has failed that would fail again."""
    from ...specs.verdict import Retry
    from ..deaths.verdict import of_report

    found = of_report(known)
    return found is not None and found.retry is Retry.NO


def end_message(run: Run) -> messages.End:
    """Return END: the exit code, and the report for node launchers started with --no_ssh."""
    if run.error is not None:
        return messages.End(run.error.exit_code, f"dsrun: {run.error}\n")
    known = report(run)
    text = words(known)
    return messages.End(known.exit_code, f"{text}\n" if text else "")
