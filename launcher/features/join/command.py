"""Join the job of node 0: one command runs on every node (--no_ssh)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.options import Options
    from ...common.detach import Parent
    from ...planning.planner import PlannedJob


def join(planned: PlannedJob, options: Options, parent: Parent | None = None) -> int:
    """Serve as the node launcher of this node until the job has ended; return the exit code.

    Node 0 reports the progress. `parent` is released once this node has joined.

    Raises:
        DsrunError: node 0 cannot be reached.
    """
    from ...node.main import serve_line
    from ...planning.policies import dial_in
    from ...specs.policies import START_TIMEOUT
    from .node import join as connected

    patience = options.start_timeout or START_TIMEOUT
    line = connected(planned.plan, dial_in(options, planned.plan), patience)
    if parent is not None:
        parent.detach(folder=None)
    return serve_line(line)
