"""The variables that switch on torch's flight recorder in workers. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ENTRIES = "500"
"""Collectives that are kept. To report them takes a worker 5 ms; of 2,000, as by default in torch
2.13, it takes 20 ms.
"""

DUMP = "TORCH_FR_DUMP_TEMP_FILE"
"""Names the files which NCCL's watchdog writes when a collective has timed out; the rank follows.

The older names warn in newer versions of torch, so they are not set; torch before 2.8 has its own
default.
"""

_OTHER_NAMES = {
    "TORCH_FR_BUFFER_SIZE": "TORCH_NCCL_TRACE_BUFFER_SIZE",
    DUMP: "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
}


def recorder(env: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return what is to be added to the variables of a worker; nothing that the user has set.

    `folder` is that of the log files, "" for none. Without one torch decides whether it dumps.
    """
    wanted = {"TORCH_FR_BUFFER_SIZE": ENTRIES}
    if folder:
        wanted |= {DUMP: f"{folder}/nccl_trace_rank_", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
    return {
        name: value
        for name, value in wanted.items()
        if name not in env and _OTHER_NAMES.get(name) not in env
    }
