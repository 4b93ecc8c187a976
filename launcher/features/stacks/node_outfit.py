"""Workers that run the hook before their own program, with torch's flight recorder on."""

from __future__ import annotations

import os
from contextlib import contextmanager

from ...specs.environment import from_wire, to_wire
from .hook import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ...node.workers.spawn import StartingWorkers, WorkerSpec

ENTRIES = "500"
"""Number of collectives kept. A worker takes 5 ms to report 500, and 20 ms to report the 2,000 that
are the default in torch 2.13.
"""

DUMP = "TORCH_FR_DUMP_TEMP_FILE"
"""The variable with the path of the files that NCCL's watchdog writes when a collective has timed
out; the rank is appended.

The older names of these variables warn in newer versions of torch, and are not set. Versions before
2.8 use their own defaults.
"""

_OTHER_NAMES = {
    "TORCH_FR_BUFFER_SIZE": "TORCH_NCCL_TRACE_BUFFER_SIZE",
    DUMP: "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
}


@contextmanager
def outfit(
    specs: Sequence[WorkerSpec], starting: StartingWorkers
) -> Iterator[Sequence[WorkerSpec]]:
    """Make the workers run the hook first, unless PYTHONPATH cannot name its folder."""
    if ":" not in FOLDER:
        specs = [
            one._replace(env=with_recorder(one.env, starting.log_folder), hook=os.fsencode(FOLDER))
            for one in specs
        ]
    yield specs


def with_recorder(env: Mapping[bytes, bytes], log_folder: str) -> dict[bytes, bytes]:
    """Return the variables of a worker, including the flight recorder's."""
    added = recorder([to_wire(name) for name in env], log_folder)
    return {**env, **{from_wire(name): from_wire(value) for name, value in added.items()}}


def recorder(given: Collection[str], folder: str) -> dict[str, str]:
    """Return the variables of the flight recorder that a worker is not already `given`.

    `folder` is the folder of the log files; without one (""), torch's default for dumps applies.
    """
    wanted = {"TORCH_FR_BUFFER_SIZE": ENTRIES}
    if folder:
        wanted |= {DUMP: f"{folder}/nccl_trace_rank_", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
    return {
        name: value
        for name, value in wanted.items()
        if name not in given and _OTHER_NAMES.get(name) not in given
    }
