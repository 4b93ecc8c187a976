"""The table of failures. To add one: a `Row` in the module of its kind, and a tail in the corpus.

Within each tuple here the first matching row counts: special rows stand before general ones.
"""

from __future__ import annotations

from .runner_accelerator_rows import ACCELERATOR_LINES, ACCELERATOR_ROWS
from .runner_cloud_rows import CLOUD_ROWS
from .runner_device_rows import DEVICE_LINES, DEVICE_ROWS, NCCL_LINES, NCCL_ROWS
from .runner_engine_rows import ENGINE_LINES, ENGINE_ROWS
from .runner_file_rows import (
    CHECKPOINT_ROWS,
    DATA_ROWS,
    DISK_ROWS,
    RAY_MEMORY_LINE,
    SHARED_MEMORY_LINE,
    SHARED_MEMORY_ROWS,
    THREAD_LIMIT,
)
from .runner_network_rows import NETWORK_LINES, PORT_ROWS, RANK_ROWS, SERVICE_ROWS
from .runner_node_rows import (
    AGENT_ROWS,
    NOTICE_ROWS,
    SCHEDULER_ROWS,
    SIGNAL_ROWS,
    XID_LINE,
    XID_ROWS,
)
from .runner_program_rows import ARGUMENT_ROWS, INSTALL_ROWS, START_ROWS, USE_ROWS, USER_ROWS

CODES_OF_EXCEPTIONS = (1, 134, -6)
"""Exit codes of programs ended by an exception; with another code, a program has continued."""

EXCEPTIONS = (
    *AGENT_ROWS,
    *DEVICE_ROWS,
    *ENGINE_ROWS,
    *ACCELERATOR_ROWS,
    *NCCL_ROWS,
    *SHARED_MEMORY_ROWS,
    *PORT_ROWS,
    *RANK_ROWS,
    *USER_ROWS,
    *INSTALL_ROWS,
    *CHECKPOINT_ROWS,
    *ARGUMENT_ROWS,
    *DATA_ROWS,
    *DISK_ROWS,
    *SERVICE_ROWS,
    *CLOUD_ROWS,
    *USE_ROWS,
)
"""Rows by the exception that has ended a program, in Python or in C++."""

SIGNALS = SIGNAL_ROWS
"""Rows by the signal that has ended a program."""

EVIDENCE = XID_ROWS
"""Rows by the evidence of the node."""

_ALONE = (
    XID_LINE,
    *DEVICE_LINES,
    *ENGINE_LINES,
    *ACCELERATOR_LINES,
    *NCCL_LINES,
    *NETWORK_LINES,
    SHARED_MEMORY_LINE,
    RAY_MEMORY_LINE,
    THREAD_LIMIT,
)

LINES = (
    *SCHEDULER_ROWS,
    *NOTICE_ROWS,
    *START_ROWS,
    *(row._replace(codes=CODES_OF_EXCEPTIONS) for row in _ALONE),
)
"""Rows by the last lines of a program."""
