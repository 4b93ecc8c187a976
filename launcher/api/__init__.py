"""Jobs from Python: launch a script or a function on nodes, follow it, and get its results.

    from dsrun import launch

    with launch("train.py", ["--epochs", "3"], hosts="n1,n2") as job:
        report = job.wait()

docs/python.md describes it.
"""

from __future__ import annotations

from ..head.report.document import Failure
from ..head.run.events import Exit, Lost, Round, Started
from .errors import JobError, LaunchError, RankError
from .events import Ended, Event, Message, Output
from .fleet import Fleet, FleetNode
from .job import Events, Job
from .launching import launch
from .report import Report
from .roles import Role
from .stacks import Stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .detached import DetachedJob, launch_detached

__all__ = [
    "DetachedJob",
    "Ended",
    "Event",
    "Events",
    "Exit",
    "Failure",
    "Fleet",
    "FleetNode",
    "Job",
    "JobError",
    "LaunchError",
    "Lost",
    "Message",
    "Output",
    "RankError",
    "Report",
    "Role",
    "Round",
    "Stacks",
    "Started",
    "launch",
    "launch_detached",
]


def __getattr__(name: str) -> object:
    """Import the names for detached jobs when they are first used: most programs need none.

    Raises:
        AttributeError: there is no such name.
    """
    if name not in {"DetachedJob", "launch_detached"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import detached

    return getattr(detached, name)
