"""Workers that run the hook before their own program, with torch's flight recorder on."""

from __future__ import annotations

import os
from contextlib import contextmanager

from ...specs.environment import from_wire, to_wire
from ..hook import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from .spawn import StartingWorkers, WorkerSpec

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


@contextmanager
def outfit(
    specs: Sequence[WorkerSpec], starting: StartingWorkers
) -> Iterator[Sequence[WorkerSpec]]:
    """Have the workers run the hook first, unless PYTHONPATH cannot name its folder."""
    if ":" not in FOLDER:
        specs = [
            one._replace(env=with_recorder(one.env, starting.log_folder), hook=os.fsencode(FOLDER))
            for one in specs
        ]
    yield specs


def with_recorder(env: Mapping[bytes, bytes], log_folder: str) -> dict[bytes, bytes]:
    """Return the variables of a worker with those of the flight recorder."""
    added = recorder([to_wire(name) for name in env], log_folder)
    return {**env, **{from_wire(name): from_wire(value) for name, value in added.items()}}


def recorder(given: Collection[str], folder: str) -> dict[str, str]:
    """Return the variables to be added to those that a worker is `given`.

    `folder` is that of the log files, "" for none. Without one torch decides whether it dumps.
    """
    wanted = {"TORCH_FR_BUFFER_SIZE": ENTRIES}
    if folder:
        wanted |= {DUMP: f"{folder}/nccl_trace_rank_", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
    return {
        name: value
        for name, value in wanted.items()
        if name not in given and _OTHER_NAMES.get(name) not in given
    }
