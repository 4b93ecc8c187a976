"""How a run has ended: its report, and what everybody is told of it."""

from __future__ import annotations

from ..report.ending import Ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..report.report import Report
    from .run import Run


def ending_of(run: Run) -> Ending:
    """Return how a run has ended, as far as is known now."""
    return Ending(run.spec.job_id, run.error or _report(run))


def _report(run: Run) -> Report:
    size = run.restarts.world_size(run.plan.world_size or 0)
    clean = run.spec.supervision.graceful_term_ok
    known = run.record.report(run.nodes, size, graceful_term_ok=clean)
    facts = ((node.name, node.hello.facts) for node in run.nodes if node.hello)
    ran = run.plan.program, run.spec.workdir
    known = known._replace(ran=ran, facts=tuple((name, one) for name, one in facts if one))
    code = run.spec.supervision.no_requeue_code
    return known.never_again(code) if code and known.is_useless else known
