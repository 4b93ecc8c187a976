"""The error file of whoever has started this job: torchx, a platform, or a job around it.

`record` around torchrun's agent does the same (torch 2.13, `multiprocessing/errors`): it copies
what the worker that has failed first has recorded, with its exit code.
"""

from __future__ import annotations

import json

from ...common import system
from .report import WorkerFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .ending import Ending

VARIABLE = "TORCHELASTIC_ERROR_FILE"


def text(ending: Ending) -> str:
    """Return what belongs into that file, "" if no worker has recorded why the job has failed."""
    cause = ending.report.cause if ending.report is not None and ending.code else None
    if not isinstance(cause, WorkerFailure) or not cause.message:
        return ""
    if not cause.traceback:  # as signal handlers write it, and `record` leaves it
        return json.dumps({"message": cause.message})
    extra = {"py_callstack": cause.traceback, "timestamp": str(int(system.time()))}
    message = {"message": cause.message, "extraInfo": extra, "errorCode": cause.code}
    return json.dumps({"message": message})
