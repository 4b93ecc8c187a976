"""Expand Slurm's lists of hosts (`node[01-16,20],login1`) and of counts (`2(x3),1`). Pure.

sbatch(1) describes the counts (SLURM_TASKS_PER_NODE). The hosts follow `scontrol show hostnames`:
empty items are ignored, and in `[001-16]` the lower end sets the number of digits.
"""

from __future__ import annotations

import re

from ..common.errors import UsageError
from .counts import bad
from .names import check_name
from .ranges import MAX_HOSTS, expand, located, quoted

# A comma in brackets does not separate items.
_ITEM = re.compile(r"(?:[^,\[]+|\[[^\]]*\]?)+")
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_RANGE = re.compile(r"([0-9]{1,15})-([0-9]{1,15})")
_COUNT = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")


def expand_nodelist(text: str, where: str = "SLURM_JOB_NODELIST") -> list[str]:
    """Return the host names that `text` stands for, in its order.

    Args:
        text: such as `a[01-03,7],c[1-2]d[3-4],plain`; several brackets multiply.
        where: the variable that holds it, for messages.

    Raises:
        UsageError: an item is malformed, or the list is empty or longer than `MAX_HOSTS`.
    """
    names: list[str] = []
    for item in filter(None, map(str.strip, _ITEM.findall(text))):
        names += _hosts(item, where)
        if len(names) > MAX_HOSTS:
            raise UsageError(f"{where}: more than {MAX_HOSTS} hosts")
    if not names:
        raise bad(where, text, "hosts such as node[01-16],login1")
    return names


def task_counts(text: str, where: str = "SLURM_TASKS_PER_NODE") -> list[int]:
    """Return the counts that `2(x3),1` stands for, one per node: 2, 2, 2, 1.

    Raises:
        UsageError: `text` is not such a list, or has more than `MAX_HOSTS` nodes.
    """
    counts: list[int] = []
    for item in text.split(","):
        match = _COUNT.fullmatch(item)
        if not match:
            raise bad(where, text, "counts such as 2(x3),1")
        times = int(match[2] or 1)
        if len(counts) + times > MAX_HOSTS:
            raise UsageError(f"{where}: {quoted(text)}: more than {MAX_HOSTS} nodes")
        counts += [int(match[1])] * times
    return counts


def _hosts(item: str, where: str) -> list[str]:
    try:
        names = expand(_BRACKETS.sub(_aligned, item))
        for name in names:
            check_name(name)
    except UsageError as fault:
        raise located(fault, where, item) from None
    return names


def _aligned(brackets: re.Match[str]) -> str:
    """Return the brackets with both ends of each range padded to equal width."""
    return _RANGE.sub(_with_zeros, brackets[0])


def _with_zeros(span: re.Match[str]) -> str:
    low, high = span[1], int(span[2])
    width = len(low) if low.startswith("0") else 1
    return f"{low}-{high:0{width}}"
