"""The error file for the program that started dsrun: torchx, a platform, or an outer job.

`record` around torchrun's agent writes such a file, too (torch 2.13, `multiprocessing/errors`): a
copy of the first failed worker's error file, with its exit code.
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
    """Return the content of the error file; "" if no worker has recorded its exception."""
    cause = ending.report.cause if ending.report is not None and ending.code else None
    if not isinstance(cause, WorkerFailure) or not cause.message:
        return ""
    if not cause.traceback:  # written by a signal handler; `record` leaves it unchanged
        return json.dumps({"message": cause.message})
    extra = {"py_callstack": cause.traceback, "timestamp": str(int(system.time()))}
    message = {"message": cause.message, "extraInfo": extra, "errorCode": cause.code}
    return json.dumps({"message": message})
