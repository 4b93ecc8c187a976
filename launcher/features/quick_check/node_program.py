"""The program `facts`: prints the facts of a node as one line of JSON, without a job.

    facts [--files] [--report]

It reads one line, the NodeJob of a JOB, in JSON: other users can see the arguments of a process,
but not its input. The line that it prints has `hello`, a HELLO with its facts; with `--files` the
sizes of the Python files in the working folder by name, None if there are too many; with `--report`
more about this machine and torch, for people.
"""

from __future__ import annotations

import json
import os
import sys

from ...common.errors import USAGE
from ...control import frames, messages
from ...specs.environment import to_wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


LONGEST = 64 * 1024 * 1024
"""Bytes of a task, as of a frame."""


def main(arguments: Sequence[str]) -> int:
    """Print the facts; return the exit code."""
    try:
        task = messages.unpack(messages.NodeJob, sys.stdin.buffer.readline(LONGEST))
    except frames.BadFrame as error:
        sys.stderr.write(f"facts: expected a task as JSON: {error}\n")
        return USAGE
    sys.stdout.write(json.dumps(answer(task, arguments)) + "\n")
    sys.stdout.flush()
    return 0


def answer(task: messages.NodeJob, options: Sequence[str]) -> dict[str, Any]:
    """Return the program's answer for a task."""
    from ...node.checks.file_checks import check
    from ...node.workers.prepare import NodeSetup

    notes: list[str] = []
    task = task._replace(facts=True, reach=True)
    setup = NodeSetup(task, notes.append, check(task))
    found: dict[str, Any] = {"hello": setup.hello(), "notes": notes}
    if "--files" in options:
        from .node_code import python_files

        files = python_files(os.fsdecode(setup.workdir))
        found["files"] = files and {to_wire(name): size for name, size in files.items()}
    if "--report" in options:
        from .node_report import report

        found["report"] = report(setup)
    return found
