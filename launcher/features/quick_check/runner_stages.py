"""In which order a node becomes fit for a job: what comes later cannot be seen before. Pure."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

UNRESOLVED = "its name does not resolve"
"""The cause for a host without any other evidence."""

STAGES = (
    UNRESOLVED,
    r"no answer: |no route to it|connection refused|no sshd|its sshd|ProxyJump",
    r"host key",
    r"authentication failed",
    r"(no Python at|no permission to run|Python \S+ or newer|is Python)\b|: Python /\S+: ",
    r"no such (folder|script|program)|\bmay not (enter|list|read|execute) ",
)
"""Words of causes and problems in each stage: name, sshd, host key, key, Python, files."""


def in_order(lines: Iterable[str]) -> list[str]:
    """Return lines `HOSTS: TEXT` in the order of their stages; lines without a stage are last."""
    return sorted(lines, key=_stage)


def _stage(line: str) -> int:
    text = line.partition(": ")[2]
    return next((at for at, stage in enumerate(STAGES) if re.search(stage, text)), len(STAGES))
