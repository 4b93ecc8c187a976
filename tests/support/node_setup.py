"""A task on this node, all checks made here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.node.checks.file_checks import check
from dsrun.launcher.node.workers.prepare import NodeSetup

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.control.messages import NodeJob


def node_setup(task: NodeJob, note: Callable[[str], None] = print) -> NodeSetup:
    """Check a task, its files too."""
    return NodeSetup(task, note, check(task))
