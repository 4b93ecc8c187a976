"""In which order a node becomes fit for a job: what comes later cannot be seen before. Pure."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

UNRESOLVED = "its name does not resolve"
"""What the cause says of a host of which nothing else can be seen."""

STAGES = (
    UNRESOLVED,
    r"no answer: |no route to it|connection refused|no sshd|its sshd|ProxyJump",
    r"host key",
    r"authentication failed",
    r"(no Python at|no permission to run|Python \S+ or newer|is Python)\b|: Python /\S+: ",
    r"no such (folder|script|program)|\bmay not (enter|list|read|execute) ",
)
"""What causes and problems say in each stage: name, sshd, host key, key, Python, files."""


def in_order(lines: Iterable[str]) -> list[str]:
    """Return lines `HOSTS: TEXT` in the order of their stages; those of none are last."""
    return sorted(lines, key=_stage)


def _stage(line: str) -> int:
    text = line.partition(": ")[2]
    return next((at for at, stage in enumerate(STAGES) if re.search(stage, text)), len(STAGES))
